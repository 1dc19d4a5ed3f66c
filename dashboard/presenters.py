"""What a state looks like to a person: the only place where states become words and colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

from fencepost.model import Delivery
from fencepost.moments import format_moment
from fencepost.phases import phase_of
from fencepost.segments import SegmentKind
from fencepost.states import Fact, Phase, State
from fencepost.timeline import Segment
from fencepost.timeline_text import FENCED_OUT


@dataclass(frozen=True, slots=True)
class Look:
    """How something is shown; colour is never alone.

    Attributes:
        label: one or two words.
        tone: names a colour of ``app.css``.
        glyph: an icon of ``static/glyphs.svg``.
    """

    label: str
    tone: str
    glyph: str


STATES: Final[Mapping[str, Look]] = MappingProxyType(
    {
        State.RECEIVED: Look("received", "ingest", "inbox"),
        State.ENCRYPTED: Look("encrypted", "wait", "lock"),
        State.LEASED: Look("leased", "prep", "hand"),
        State.ATTEMPTED: Look("attempted", "inflight", "arrow"),
        State.RETRIED: Look("retried", "backoff", "loop"),
        State.DELIVERED: Look("delivered", "ok", "check"),
        State.DLQ: Look("dead", "dlq", "square"),
        Fact.FAILED: Look("failed", "fail", "cross"),
        Fact.LEASE_EXPIRED: Look("lease expired", "fenced", "clock"),
        Fact.RELEASED: Look("released", "ingest", "back"),
        Fact.REPLAYED: Look("replayed", "prep", "replay"),
        Fact.DISCARDED: Look("discarded", "dlq", "bin"),
        FENCED_OUT: Look("fenced out", "fenced", "noentry"),
    }
)
"""Of a delivery and of a row of its trail."""

STATE_MEANING: Final[Mapping[State, str]] = MappingProxyType(
    {
        State.RECEIVED: "not encrypted yet",
        State.ENCRYPTED: "waiting for a worker",
        State.LEASED: "in a worker's hands",
        State.ATTEMPTED: "request in flight",
        State.RETRIED: "waiting for another try",
        State.DELIVERED: "acknowledged",
        State.DLQ: "need a person",
    }
)

SEGMENTS: Final[Mapping[SegmentKind, Look]] = MappingProxyType(
    {
        SegmentKind.INGEST: Look("taking in", "ingest", "inbox"),
        SegmentKind.WAITING: Look("waiting", "wait", "lock"),
        SegmentKind.SLEEPING: Look("sleeping", "backoff", "loop"),
        SegmentKind.HELD: Look("held, subscription paused", "wait", "pause"),
        SegmentKind.PREPARING: Look("leased, preparing", "prep", "hand"),
        SegmentKind.IN_FLIGHT: Look("request in flight", "inflight", "arrow"),
        SegmentKind.FENCED: Look("running without its lease", "fenced", "noentry"),
        SegmentKind.PARKED: Look("parked", "dlq", "square"),
    }
)

WAITED_FOR: Final[Mapping[str, str]] = MappingProxyType(
    {
        "worker": "waiting for a worker",
        "slot": "waiting for a free slot",
        "rate": "waiting for the rate limit",
        "order": "waiting for its turn",
        "paused": "held, subscription paused",
    }
)

REPLAYS: Final[Mapping[str, Look]] = MappingProxyType(
    {
        "DRAFT": Look("draft", "ingest", "pen"),
        "RUNNING": Look("running", "inflight", "arrow"),
        "PAUSED": Look("paused", "wait", "pause"),
        "CANCELLED": Look("cancelled", "dlq", "square"),
        "DONE": Look("done", "ok", "check"),
        "FAILED": Look("failed", "fail", "cross"),
    }
)

SUBSCRIPTIONS: Final[Mapping[str, Look]] = MappingProxyType(
    {
        "active": Look("active", "ok", "check"),
        "paused": Look("paused", "wait", "pause"),
        "removed": Look("removed", "ingest", "square"),
    }
)

WORKERS: Final[Mapping[str, Look]] = MappingProxyType(
    {
        "alive": Look("alive", "ok", "check"),
        "late": Look("late", "wait", "clock"),
        "silent": Look("silent", "fail", "cross"),
        "stopped": Look("stopped", "ingest", "square"),
    }
)

OUTCOMES: Final[Mapping[str, Look]] = MappingProxyType(
    {
        "done": Look("done", "ok", "check"),
        "denied": Look("denied", "fail", "noentry"),
        "refused": Look("refused", "wait", "cross"),
    }
)
"""Of acts in the operator log."""

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400


def duration(seconds: float) -> str:
    """Write a length of time: ``380 ms``, ``6.48 s``, ``1 m 38.0 s``, ``4 h 02 m``."""
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.2f} s"
    if seconds < _HOUR:
        minutes, rest = divmod(round(seconds, 1), _MINUTE)
        return f"{minutes:.0f} m {rest:04.1f} s"
    if seconds < _DAY:
        hours, rest = divmod(seconds, _HOUR)
        return f"{hours:.0f} h {rest // _MINUTE:02.0f} m"
    days, rest = divmod(seconds, _DAY)
    return f"{days:.0f} d {rest // _HOUR:02.0f} h"


def milliseconds(value: int) -> str:
    """Write a length of time that is counted in milliseconds."""
    return duration(value / 1000)


def measured(ms: float) -> str:
    """Write a length of time that was measured, in milliseconds: ``0.4 ms``, ``6.48 s``."""
    return f"{ms:.1f} ms" if 0 < ms < 1 else duration(ms / 1000)


def rfc3339(moment: datetime) -> str:
    """Write a moment for machines, in UTC with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def minute(moment: datetime) -> str:
    """Write a moment for a table of steps of time."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%MZ}"


def step(length: timedelta) -> str:
    """Name a step of time: ``minute``, ``30 minutes``, ``2 days``."""
    for name, unit in (("day", timedelta(days=1)), ("hour", timedelta(hours=1))):
        if length >= unit:
            return name if length == unit else f"{length // unit} {name}s"
    minutes = length // timedelta(minutes=1)
    return "minute" if minutes == 1 else f"{minutes} minutes"


def phase(delivery: Delivery, now: datetime) -> str:
    """Say what a delivery is doing now, where its state does not; nothing where it does."""
    if delivery.discarded_at is not None:
        return "discarded"
    match phase_of(delivery, now):
        case Phase.WAITING:
            return "waiting"
        case Phase.SLEEPING:
            return "sleeping"
        case Phase.PARKED:
            return "parked"
        case Phase.INFLIGHT:
            is_sent = delivery.current_state == State.ATTEMPTED
            return "in flight" if is_sent else "preparing"
        case None:
            return ""


exact: Final = format_moment
"""Write a moment for people; who reads in another time zone is served by app.js."""


def segment_label(segment: Segment) -> str:
    """Say what a segment was doing; of a wait, what it waited for."""
    return WAITED_FOR.get(segment.waited_for or "", SEGMENTS[segment.kind].label)


def read_moment(text: str) -> datetime:
    """Read a moment that a trail row keeps as text."""
    return datetime.fromisoformat(text)


def relative(moment: datetime, now: datetime) -> str:
    """Write a moment as seen from now: up to a day in words, else the date."""
    gap = now - moment
    if abs(gap) >= timedelta(days=1):
        return f"{moment.astimezone(UTC):%Y-%m-%d}"
    seconds = gap.total_seconds()
    if abs(seconds) < 1:
        return "now"
    words = _coarse(abs(seconds))
    return f"{words} ago" if seconds > 0 else f"in {words}"


def count(number: int) -> str:
    """Write a number with thousands separators."""
    return f"{number:,}"


def about(seconds: float) -> str:
    """Write a length of time that is an estimate: ``about 40 s``."""
    return f"about {_coarse(max(1.0, seconds))}"


def _coarse(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{seconds // 1:.0f} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} m"
    return f"{seconds // _HOUR:.0f} h"


def capped(number: int, cap: int = 10_000) -> str:
    """Write a number that was counted up to a limit only."""
    return f"{cap:,}+" if number > cap else f"{number:,}"


def offset(ms: int) -> str:
    """Write a moment of a time axis, short: ``0``, ``250 ms``, ``31.4 s``, ``2 m 30 s``."""
    seconds = ms / 1000
    if not ms:
        return "0"
    if seconds < 1:
        return f"{ms} ms"
    if seconds < _MINUTE:
        return f"{seconds:.3g} s"
    for unit, part, name, small in (
        (_DAY, _HOUR, "d", "h"), (_HOUR, _MINUTE, "h", "m"), (_MINUTE, 1, "m", "s")
    ):  # fmt: skip
        if seconds >= unit:
            whole, rest = divmod(int(seconds), unit)
            return f"{whole} {name}" + (f" {rest // part} {small}" if rest // part else "")
    return ""


def coarse(length: timedelta) -> str:
    """Write a length of time that is no measurement: ``15 s``, ``7 m 30 s``, ``2 h``."""
    return offset(length // timedelta(milliseconds=1))


def percent(share: float) -> str:
    """Write a share of one: ``98.4 %``; what is not all of it never reads ``100.0 %``."""
    shown = round(100 * share, 1)
    if shown == 100 and share < 1:  # noqa: PLR2004
        shown = 99.9
    if not shown and share:
        shown = 0.1
    return f"{shown:.1f} %"


def rate(number: float) -> str:
    """Write so many a minute: whole ones from ten on."""
    return f"{number:,.0f}" if not number or number >= 10 else f"{number:.2g}"  # noqa: PLR2004


def points(change: float) -> str:
    """Write a change in percentage points, with its sign: ``+0.3 pp``."""
    shown = round(change, 1)
    sign = "+" if shown > 0 else "\N{MINUS SIGN}" if shown < 0 else "±"
    return f"{sign}{abs(shown):.1f} pp"
