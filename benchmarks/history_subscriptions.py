"""Who receives in a history that is made up, and how well that goes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from history_figures import DAY, HOUR

from fencepost.ids import uuid7
from fencepost.model import ErrorClass

_EVERY, _FAILING = 7, 3
"""Of seven customers one has an endpoint that often fails; the fourth largest is the first."""
_DOWN, _PAUSED, _REMOVED = 4, 5, 11
"""The ranks of those to whom something has happened."""
_OLD: Final = 100
"""So many of the largest were there from the beginning."""
_THINGS: Final = (
    "invoice",
    "order",
    "payment",
    "shipment",
    "customer",
    "refund",
    "document",
    "booking",
)
_ACTS: Final = ("created", "updated", "paid", "cancelled", "sent", "closed", "approved", "failed")
_FIRMS: Final = (
    "acme",
    "globex",
    "initech",
    "umbrella",
    "hooli",
    "stark",
    "wayne",
    "tyrell",
    "wonka",
    "soylent",
)

Failure = tuple[ErrorClass, int | None, str]
_PASSING: Final[Sequence[Failure]] = (
    (ErrorClass.HTTP_5XX, 503, "503 Service Unavailable"),
    (ErrorClass.HTTP_5XX, 500, "500 Internal Server Error"),
    (ErrorClass.HTTP_5XX, 502, "502 Bad Gateway"),
    (ErrorClass.TIMEOUT, None, "no answer within 15 s"),
    (ErrorClass.HTTP_4XX, 429, "429 Too Many Requests"),
    (ErrorClass.CONNECT, None, "connection refused"),
    (ErrorClass.TLS, None, "certificate has expired"),
    (ErrorClass.DNS, None, "name or service not known"),
    (ErrorClass.RESET, None, "connection reset by peer"),
)
_FINAL: Final[Sequence[Failure]] = (
    (ErrorClass.HTTP_4XX, 422, "422 Unprocessable Entity"),
    (ErrorClass.HTTP_4XX, 404, "404 Not Found"),
    (ErrorClass.HTTP_4XX, 400, "400 Bad Request"),
    (ErrorClass.HTTP_4XX, 401, "401 Unauthorized"),
    (ErrorClass.REDIRECT, 302, "302 Found to https://example.com/login, not followed"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Who receives, and how that goes; shares are of deliveries.

    Attributes:
        number: its place among all.
        types: that it listens to.
        rejected: share of deliveries that it refuses for good.
        spent: share that fails until the budget is spent.
        retried: share that fails once or twice, and then arrives.
        passing: how it fails when that passes.
        final: how it refuses.
        latency: how slow it is, as a factor.
        backoff_base: seconds before the second attempt; each further delay is twice as long.
        backoff_cap: but no longer.
        created_at: microseconds since 1970, as all moments here.
        paused_at: since when its deliveries are held.
        removed_at: since when it gets nothing more.
        down_since: since when it answers nothing but failures.
    """

    id: bytes
    number: int
    name: str
    url: str
    types: tuple[str, ...]
    max_attempts: int
    backoff_base: float
    backoff_cap: float
    rejected: float
    spent: float
    retried: float
    passing: Failure
    final: Failure
    latency: float
    created_at: int
    paused_at: int | None
    removed_at: int | None
    down_since: int | None


def make_customers(
    chance: random.Random, *, count: int, start: int, until: int, most_attempts: int
) -> Sequence[Sequence[Subscription]]:
    """Make subscriptions by customer: most have one, some two or three that share two types.

    Args:
        chance: decides.
        count: how many subscriptions.
        start: of the history; the large ones are older.
        until: its end.
        most_attempts: budget of the last one, whose deliveries have long trails.
    """
    found: list[list[Subscription]] = []
    made = 0
    while made < count:
        wanted = min(chance.choices((1, 2, 3), (80, 15, 5))[0], count - made)
        found.append([])
        for nth in range(wanted):
            one = _make(chance, made, len(found) - 1, nth, span=(start, until))
            made += 1
            if made == count:
                one = replace(
                    one, max_attempts=most_attempts, backoff_cap=300.0, rejected=0.0, spent=0.3
                )
            found[-1].append(one)
    return found


def _make(
    chance: random.Random, number: int, rank: int, nth: int, *, span: tuple[int, int]
) -> Subscription:
    start, until = span
    firm = _FIRMS[rank % len(_FIRMS)]
    fails = rank % _EVERY == _FAILING
    age = 1.0 if rank < _OLD else chance.random()
    created_at = start - HOUR + int((1 - age) * 0.6 * (until - start))
    types = _types_of(rank)
    return Subscription(
        id=uuid7(created_at // 1000, chance.randbytes(10)).bytes,
        number=number,
        name=f"{firm}-{rank}" + (f"-{nth}" if nth else ""),
        url=f"https://hooks.{firm}{rank}.example/in/{nth}",
        types=types if nth == 0 else types[:2],
        max_attempts=chance.choice((5, 5, 5, 3, 8)),
        backoff_base=15.0,
        backoff_cap=3600.0,
        rejected=0.35 if fails else 0.03,
        spent=0.2 if fails else 0.01,
        retried=0.4 if fails else 0.04,
        passing=chance.choice(_PASSING),
        final=chance.choice(_FINAL),
        latency=chance.choice((0.5, 1.0, 1.0, 1.0, 4.0)),
        created_at=created_at,
        paused_at=until - 2 * DAY if (rank, nth) == (_PAUSED, 0) else None,
        removed_at=until - 30 * DAY if (rank, nth) == (_REMOVED, 0) else None,
        down_since=until - 6 * HOUR if (rank, nth) == (_DOWN, 0) else None,
    )


def _types_of(rank: int) -> tuple[str, ...]:
    thing = _THINGS[rank % len(_THINGS)]
    first = rank // len(_THINGS)
    return tuple(f"{thing}.{_ACTS[(first + n) % len(_ACTS)]}.c{rank}" for n in range(4))
