"""What a reply means for the delivery: the only place that judges status codes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Final

from fencepost.model import ErrorClass, Reply

DEFAULT_RETRY_STATUSES: Final = frozenset({408, 425, 429, *range(500, 600)})
"""Tried again unless the subscription says otherwise; no other 3xx or 4xx is."""

_RETRY_AFTER_STATUSES: Final = frozenset({429, 503})

# The request could not leave as it is written, and will not be written otherwise next time.
_NEVER_SENDABLE: Final = frozenset({ErrorClass.INVALID_URL, ErrorClass.INVALID_HEADER})

MAX_TEXT_CHARACTERS: Final = 500


class Verdict(StrEnum):
    """What to do with the delivery after an attempt."""

    DELIVERED = "delivered"
    RETRY = "retry"  # if its budget allows
    REJECT = "reject"  # never again: the dead letter queue


@dataclass(frozen=True, slots=True)
class Outcome:
    """The meaning of one attempt."""

    verdict: Verdict
    error: ErrorClass | None
    """None for what was delivered, and for nothing else."""
    message: str | None
    """One line for a person; of a delivered one, what was wrong with the answer's body."""
    status: int | None
    retry_after_raw: str | None = None
    """As the receiver wrote it, cleaned; for ``retry.parse_retry_after`` and the trail."""
    pauses: bool = False
    """The receiver says it is gone for good: pause its subscription."""


def classify(
    reply: Reply,
    *,
    retry_statuses: Collection[int] = (),
    no_retry_statuses: Collection[int] = (),
) -> Outcome:
    """Judge the reply to one request.

    Args:
        reply: from the transport; its status line decides, whatever became of its body.
        retry_statuses: the subscription's own, beside ``DEFAULT_RETRY_STATUSES``.
        no_retry_statuses: the subscription's own exceptions; they win over both.

    Source: CONTRACT section 3.
    """
    status = reply.status
    if status is None:
        error = reply.error or ErrorClass.BAD_RESPONSE
        verdict = Verdict.REJECT if error in _NEVER_SENDABLE else Verdict.RETRY
        return Outcome(verdict, error, reply.message, None)
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return Outcome(Verdict.DELIVERED, None, reply.message, status)
    error = _class_of(status)
    retried = status in DEFAULT_RETRY_STATUSES or error is ErrorClass.BAD_RESPONSE
    retried = (retried or status in retry_statuses) and status not in no_retry_statuses
    return Outcome(
        verdict=Verdict.RETRY if retried else Verdict.REJECT,
        error=error,
        message=_describe(reply, status, error),
        status=status,
        retry_after_raw=_retry_after(reply) if status in _RETRY_AFTER_STATUSES else None,
        # A subscription that wants 410 tried again has said that it does not mean gone.
        pauses=status == HTTPStatus.GONE and not retried,
    )


def _class_of(status: int) -> ErrorClass:
    match status // 100:
        case 3:
            return ErrorClass.REDIRECT
        case 4:
            return ErrorClass.HTTP_4XX
        case 5:
            return ErrorClass.HTTP_5XX
        case _:  # 1xx as a final answer, and 600 to 999, which HTTP does not know
            return ErrorClass.BAD_RESPONSE


def _describe(reply: Reply, status: int, error: ErrorClass) -> str:
    try:
        text = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        text = f"{status}"
    location = header(reply, "location")
    if error is ErrorClass.REDIRECT and location:
        text += f" to {location}, not followed"
    if reply.message:
        text += f"; {reply.message}"
    return clean_text(text)


def _retry_after(reply: Reply) -> str | None:
    value = header(reply, "retry-after")
    return None if value is None else clean_text(value)


def header(reply: Reply, name: str) -> str | None:
    """Find a header of a reply in any case of its letters; several are joined by commas."""
    values = [value for key, value in reply.headers if key.lower() == name]
    return ", ".join(values) if values else None


def clean_text(text: str, *, limit: int = MAX_TEXT_CHARACTERS) -> str:
    r"""Make text from outside safe to store, to log and to show in one line.

    What does not print (NUL, control characters, lone surrogates, marks that turn the reading
    direction) becomes a visible escape such as ``\x00``; what is too long is cut, and says so.
    PostgreSQL refuses NUL and surrogates, and with them the whole batch of outcomes.
    """
    shown = text[: limit + 1]
    if not shown.isprintable():
        shown = "".join(letter if letter.isprintable() else _escape(letter) for letter in shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def clean_bytes(raw: bytes, *, limit: int = MAX_TEXT_CHARACTERS) -> str:
    r"""Make bytes of unknown encoding safe as text: all but printable ASCII is escaped."""
    return clean_text(raw[: limit + 1].decode("ascii", "backslashreplace"), limit=limit)


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
