"""The words of a timeline: what each row of a trail says to a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from fencepost.model import FencedWrite, TrailRow
from fencepost.states import Fact, State

FENCED_OUT: Final = "FENCED_OUT"
"""What texts call a refused write; it is no state and never in the trail."""

_STATE_WIDTH: Final = 9


def as_text(rows: Sequence[TrailRow], fenced: Sequence[FencedWrite]) -> list[str]:
    """Tell a delivery's story, one line a row, refused writes where they arrived."""
    if not rows:
        return []
    origin = rows[0].created_at
    late = sorted(fenced, key=lambda write: write.noted_at)
    lines = []
    for before, row in zip((None, *rows[:-1]), rows, strict=True):
        while late and late[0].noted_at < row.created_at:
            lines.append(format_fenced(late.pop(0), origin))
        lines.append(format_line(row, origin, before=before))
    return lines + [format_fenced(write, origin) for write in late]


def format_line(row: TrailRow, origin: datetime, *, before: TrailRow | None = None) -> str:
    """Word one row of a trail as ``[mm:ss.mmm] STATE - what happened``.

    Args:
        row: the row.
        origin: when the delivery's first row was written.
        before: the row before it, which tells why a RETRIED row was written.
    """
    return _line(row.created_at - origin, row.state, describe(row, before=before))


def format_fenced(write: FencedWrite, origin: datetime) -> str:
    """Word a refused write like a row of the trail."""
    return _line(write.noted_at - origin, FENCED_OUT, describe_fenced(write))


def format_offset(offset: timedelta) -> str:
    """Write ``02:03.004``, or ``1d 02:03:04.005`` from an hour on."""
    sign = "-" if offset < timedelta(0) else ""
    seconds, ms = divmod(abs(offset) // timedelta(milliseconds=1), 1000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    if not hours:
        return f"{sign}{minute:02d}:{second:02d}.{ms:03d}"
    day, hour = divmod(hours, 24)
    return f"{sign}{day}d {hour:02d}:{minute:02d}:{second:02d}.{ms:03d}"


def format_duration(ms: float) -> str:
    """Write a length of time in the unit that suits it: ``380 ms``, ``6.48 s``, ``4 h 02 m``."""
    seconds = ms / 1000
    if seconds < 1:
        return f"{ms:.0f} ms"
    if seconds < 60:  # noqa: PLR2004 - seconds in a minute
        return f"{seconds:.2f}".rstrip("0").rstrip(".") + " s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour:02d} h"
    if hours:
        return f"{hours} h {minute:02d} m"
    return f"{minute} m {second:02d} s" if second else f"{minute} m"


def describe(row: TrailRow, *, before: TrailRow | None = None) -> str:
    """Say what happened, without the time and the state. One line, whatever the row holds."""
    detail = row.detail or {}
    if row.state == State.RETRIED:
        return _printable(_retried(detail, before))
    return _printable(_WORDS[row.state](row, detail))


def describe_fenced(write: FencedWrite) -> str:
    """Say whose late write was refused, and why."""
    if write.would_write == "heartbeat":
        told = f"Worker {write.worker_id} found its lease lost while its request was open"
    else:
        told = f"Worker {write.worker_id} was refused: it would have written {write.would_write}"
    return _printable(f"{told}, stale token={write.fencing_token}")


def _line(offset: timedelta, state: str, what: str) -> str:
    return f"[{format_offset(offset)}] {state:<{_STATE_WIDTH}} - {what}"


def _printable(text: str) -> str:
    """Replace what could break the line or drive a terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _received(row: TrailRow, detail: Mapping[str, object]) -> str:
    return f"Payload taken in by node {detail.get('node') or row.worker_id}"


def _encrypted(_: TrailRow, detail: Mapping[str, object]) -> str:
    by = {"producer": "by its producer", "fan-out": "at fan-out"}
    how = by.get(str(detail.get("sealed_by")), "")
    return f"Encrypted {how} (key id: {_short(detail.get('key_id'))})".replace("  ", " ")


def _short(key_id: object) -> str:
    text = str(key_id)
    return text if len(text) <= 4 else f"...{text[-4:]}"  # noqa: PLR2004 - the seed shows four


_WAITED_FOR: Final = MappingProxyType(
    {
        "worker": "a worker",
        "slot": "a free slot of its subscription",
        "rate": "its subscription's rate limit",
        "order": "its turn",
        "paused": "its subscription to be resumed",
    }
)


def _leased(row: TrailRow, detail: Mapping[str, object]) -> str:
    seconds = detail.get("lease_seconds")
    length = f" ({seconds:g} s)" if isinstance(seconds, int | float) else ""
    waited_for = str(detail.get("waited_for") or "worker")
    waited = f", waited for {_WAITED_FOR.get(waited_for, waited_for)}"
    return f"Worker {row.worker_id} claimed lease{length}, token={row.fencing_token}{waited}"


def _attempted(_: TrailRow, detail: Mapping[str, object]) -> str:
    return f"POST {detail.get('url')} (attempt {detail.get('attempt')})"


def _failed(row: TrailRow, detail: Mapping[str, object]) -> str:
    if row.http_status_code is not None:
        said = row.error_message or ""
        code = str(row.http_status_code)
        answer = said if said.startswith(code) else code  # with its phrase, or where it leads
        return f"Endpoint returned HTTP {answer}{_latency(row)}"
    why = f": {row.error_message}" if row.error_message else ""
    return f"{detail.get('class') or 'failed'}{why}{_latency(row)}"


_RETRIED_FOR: Final = MappingProxyType(
    {
        "retry_after": "the endpoint asked to wait",
        "local_error": "a fault of our own, which uses no attempt",
    }
)


def _retried(detail: Mapping[str, object], before: TrailRow | None) -> str:
    delay = detail.get("delay_ms")
    delay_ms = delay if isinstance(delay, int | float) else 0
    if delay_ms <= 0:
        return "Rescheduled, due at once"
    why = _RETRIED_FOR.get(str(detail.get("reason")))
    if why is None and before is not None and before.state == Fact.FAILED:
        why = "backoff with jitter"
    return f"Rescheduled for +{format_duration(delay_ms)}{f' ({why})' if why else ''}"


def _delivered(row: TrailRow, _: Mapping[str, object]) -> str:
    body = f"; its body: {row.error_message}" if row.error_message else ""
    return f"HTTP {_status(row.http_status_code)}{_latency(row)}{body}"


def _latency(row: TrailRow) -> str:
    return "" if row.latency_ms is None else f" (latency {row.latency_ms} ms)"


def _status(code: int | None) -> str:
    try:
        return f"{code} {HTTPStatus(code or 0).phrase}"
    except ValueError:  # no registered phrase
        return str(code)


def _dead(_: TrailRow, detail: Mapping[str, object]) -> str:
    return f"Dead-lettered: {detail.get('reason')}"


def _lease_expired(row: TrailRow, detail: Mapping[str, object]) -> str:
    holder = detail.get("held_by") or row.worker_id
    return f"The lease of worker {holder} ran out without an outcome, token={row.fencing_token}"


_RELEASED: Final = MappingProxyType(
    {
        "key_unavailable": "the key that sealed it is not in the keyring",
        "paused": "its subscription is paused",
        "limited": "its subscription's limit is reached",
        "unsupported": "this worker cannot send it",
        "draining": "the worker is stopping",
    }
)


def _released(row: TrailRow, detail: Mapping[str, object]) -> str:
    reason = str(detail.get("reason"))
    return f"Given back unsent by worker {row.worker_id}: {_RELEASED.get(reason, reason)}"


def _replayed(row: TrailRow, detail: Mapping[str, object]) -> str:
    bulk = f" in replay {detail['replay_id']}" if detail.get("replay_id") else ""
    return f"Sent again by {_operator(row, detail)}{bulk}{_because(detail)}"


def _discarded(row: TrailRow, detail: Mapping[str, object]) -> str:
    return f"Given up by {_operator(row, detail)}{_because(detail)}"


def _operator(row: TrailRow, detail: Mapping[str, object]) -> object:
    return detail.get("operator") or row.worker_id


def _because(detail: Mapping[str, object]) -> str:
    return f": {detail['reason']}" if detail.get("reason") else ""


_WORDS: Final[Mapping[str, Callable[[TrailRow, Mapping[str, object]], str]]] = MappingProxyType(
    {
        State.RECEIVED: _received,
        State.ENCRYPTED: _encrypted,
        State.LEASED: _leased,
        State.ATTEMPTED: _attempted,
        State.DELIVERED: _delivered,
        State.DLQ: _dead,
        Fact.FAILED: _failed,
        Fact.LEASE_EXPIRED: _lease_expired,
        Fact.RELEASED: _released,
        Fact.REPLAYED: _replayed,
        Fact.DISCARDED: _discarded,
    }
)
