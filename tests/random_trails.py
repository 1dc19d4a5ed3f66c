"""Trails as random as the table of moves allows, and what they tell when counted one by one."""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

from psycopg import Connection

from fencepost.model import ErrorClass, TrailRow
from fencepost.segments import WaitedFor, divide
from fencepost.states import FINISHED, TRANSITIONS, Cause, Fact, State
from fencepost.store.deliveries import read_trail

_ENDS_BY_FAILURE = frozenset({Cause.RETRY, Cause.EXHAUST, Cause.REJECT, Cause.REFUSE})


@dataclass(slots=True)
class Walker:
    """A delivery that goes wherever the table of moves lets it."""

    id: UUID
    at: datetime
    chance: random.Random
    state: State = State.RECEIVED
    seq: int = 0
    attempts: int = 0

    def step(self) -> list[tuple[Any, ...]]:
        """Make the next move; give the rows that it writes, in the order of ``COLUMNS``."""
        if self.seq == 0:
            return [self._row(State.RECEIVED, {})]
        cause = self.chance.choice([c for (origin, c) in TRANSITIONS if origin is self.state])
        move = TRANSITIONS[self.state, cause]
        self.at += timedelta(microseconds=int(10 ** self.chance.uniform(0, 11)))
        self.state = move.to
        self.attempts += cause is Cause.ATTEMPT
        return [self._row(row, self._detail(row, cause)) for row in move.rows]

    def _row(self, state: State | Fact, detail: dict[str, Any]) -> tuple[Any, ...]:
        self.seq += 1
        return self.id, self.seq, str(state), json.dumps(detail) if detail else None, self.at

    def _detail(self, state: State | Fact, cause: Cause) -> dict[str, Any]:
        if state is State.LEASED:
            return {"waited_for": self.chance.choice(list(WaitedFor))}
        if state is State.ATTEMPTED:
            return {"attempt": self.attempts}
        if state is State.RETRIED:
            delay = timedelta(milliseconds=self.chance.choice([0, 0, 5, 30_000, 10**7]))
            return {"due_at": (self.at + delay).isoformat()}
        if state is Fact.FAILED and cause in _ENDS_BY_FAILURE:
            return {"class": self.chance.choice(list(ErrorClass))}
        if state is State.DLQ:
            return {"reason": "crash_loop" if cause is Cause.ABANDON else "whatever"}
        return {}


def insert(conn: Connection[Any], rows: Iterable[tuple[Any, ...]]) -> None:
    """Write rows of trails, as they are."""
    with conn.cursor() as cur:
        cur.executemany(
            "INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, detail, created_at)"
            " VALUES (%s, %s, %s, %s, %s)",
            rows,
        )


@dataclass
class Told:
    """What trails tell when each pair of rows is looked at by itself.

    ``durations`` are in milliseconds; waits also stand under ``waiting_<reason>``.
    """

    durations: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)

    def add(self, trail: Sequence[TrailRow]) -> None:
        """Look at one trail, from its beginning."""
        for before, after in pairwise(trail):
            self._count(before, after)
            self._divide(before, after)
            finishes = after.state in FINISHED and before.state != Fact.DISCARDED
            if finishes and all(r.state != Fact.REPLAYED for r in trail[: after.seq]):
                took = after.created_at - trail[0].created_at
                self.durations["total"].append(took / timedelta(milliseconds=1))

    def nearest_rank(self, kind: str, share: float) -> float:
        """Give the exact percentile."""
        durations = sorted(self.durations[kind])
        return durations[math.ceil(share * len(durations)) - 1]

    def _count(self, before: TrailRow, after: TrailRow) -> None:
        self.counts["received"] += after.state == State.ENCRYPTED
        self.counts["attempts"] += after.state == State.ATTEMPTED
        for fact in (Fact.FAILED, Fact.REPLAYED, Fact.DISCARDED):
            self.counts[fact.lower()] += after.state == fact
        self.counts["lease_expiries"] += after.state == Fact.LEASE_EXPIRED
        if before.state == State.ATTEMPTED:
            is_first = (before.detail or {})["attempt"] == 1
            self.counts["ended"] += 1
            self.counts["retries"] += not is_first
            self.counts["delivered"] += after.state == State.DELIVERED
            self.counts["first_delivered"] += is_first and after.state == State.DELIVERED
        if after.state == State.DLQ and before.state != Fact.DISCARDED:
            said = (before.detail or {}).get("class") or (after.detail or {})["reason"]
            self.counts["dead"] += 1
            self.dead[str(said)] += 1

    def _divide(self, before: TrailRow, after: TrailRow) -> None:
        if before.state in set(Fact):
            return
        due = (before.detail or {}).get("due_at")
        waited_for = (after.detail or {}).get("waited_for")
        for span in divide(
            State(before.state),
            begin=before.created_at,
            end=after.created_at,
            due=None if due is None else datetime.fromisoformat(str(due)),
            waited_for=None if waited_for is None else str(waited_for),
        ):
            took = (span.end - span.begin) / timedelta(milliseconds=1)
            self.durations[span.kind].append(took)
            if span.kind in {"waiting", "held"} and waited_for is not None:
                self.durations[f"waiting_{waited_for}"].append(took)


def tell(conn: Connection[Any], ids: Iterable[UUID]) -> Told:
    """Read the trails of deliveries, each row of them."""
    told = Told()
    for id_ in ids:
        told.add(read_trail(conn, id_))
    return told
