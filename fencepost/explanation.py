"""Why a delivery is in its state and what happens next, in plain words, for page, API and CLI."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final
from uuid import UUID

from fencepost.model import Delivery, Subscription
from fencepost.moments import format_moment
from fencepost.states import WAITING, Fact, State
from fencepost.timeline import Timeline
from fencepost.timeline_causes import causes
from fencepost.timeline_text import format_duration

SILENT_AFTER: Final = timedelta(seconds=30)
"""A worker that has said nothing for so long counts as gone."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What stands around a delivery at the moment of looking.

    Attributes:
        now: the database's clock.
        subscription: where it goes.
        is_erased: its payload is gone.
        workers: how many report themselves.
        last_beat: when one did last; None when there never was one.
        behind: of an ordered subscription, the earlier delivery that is not finished.
    """

    now: datetime
    subscription: Subscription
    is_erased: bool
    workers: int
    last_beat: datetime | None
    behind: UUID | None

    @property
    def is_removed(self) -> bool:
        """Whether there is nowhere to send it any more."""
        return self.subscription.removed_at is not None

    @property
    def is_paused(self) -> bool:
        """Whether what waits is held."""
        return self.subscription.state == "paused" and not self.is_removed


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an engineer asks first.

    Attributes:
        state: why it is in the state it is in.
        next: what happens next.
        next_at: when, where that is known; ``next`` names it too.
        causes: what went wrong or took long on the way, the gravest first.
    """

    state: str
    next: str
    next_at: datetime | None
    causes: tuple[str, ...]


def explain(delivery: Delivery, timeline: Timeline, about: Circumstances) -> Explanation:
    """Say why a delivery stands where it stands, what comes next, and what led to it."""
    due: datetime | None = None
    match delivery.current_state:
        case State.DELIVERED:
            state, following = _delivered(delivery, timeline, about)
        case State.DLQ:
            state, following = _dead(delivery, about)
        case State.LEASED | State.ATTEMPTED:
            state, following = _held(delivery, about)
        case State.RECEIVED:
            state = "It is taken in and not encrypted yet."
            following = f"Fan-out encrypts it{_unless_no_worker(about)}."
        case _:
            state, following, due = _waiting(delivery, timeline, about)
    return Explanation(state, following, due, tuple(causes(timeline)))


def _delivered(delivery: Delivery, timeline: Timeline, about: Circumstances) -> tuple[str, str]:
    answer = f"answered {delivery.last_status}" if delivery.last_status else "accepted it"
    took = ""
    if timeline.origin is not None and timeline.rows[-1].state == State.DELIVERED:
        after = (timeline.rows[-1].created_at - timeline.origin) / timedelta(milliseconds=1)
        took = f", {format_duration(after)} after it was taken in"
    state = f"{about.subscription.name} {answer} on attempt {delivery.attempt_count}{took}."
    return state, "Nothing more, unless somebody replays it."


_DEAD: Final = MappingProxyType(
    {
        "budget_spent": "Its last attempt failed too, and its budget of attempts is spent",
        "not_retryable": "The endpoint refused it in a way that no retry mends",
        "crash_loop": "Every worker that took it died: it is kept away from the others",
        "lease_expired": "Its lease ran out, and its budget of attempts is spent",
        "payload_undecryptable": "Its payload cannot be decrypted: it was changed after sealing",
        "payload_erased": "Its payload was erased, so there is nothing to send",
        "invalid_url": "The URL of its subscription may not be called as it is written",
        "invalid_header": "A header of its subscription cannot be sent as it is written",
        "subscription_removed": "Its subscription was removed, so there is nowhere to send it",
    }
)


def _dead(delivery: Delivery, about: Circumstances) -> tuple[str, str]:
    reason = delivery.dead_reason or "unknown"
    if delivery.discarded_at is not None:
        given_up = reason.removeprefix("discarded").removeprefix(": ")
        state = "An operator gave it up" + (f": {given_up}" if given_up else "") + "."
        return state, "Nothing more: it is not sent again, and bulk replays pass over it."
    last = delivery.last_status or delivery.last_error
    said = f" (the last outcome: {last})" if last and str(last) != reason else ""
    state = f"{_DEAD.get(reason, f'It was dead-lettered: {reason}')}{said}."
    if about.is_removed:
        return state, "Nothing more: its subscription is removed, so it cannot be replayed."
    if about.is_erased:
        return state, "Nothing more: its payload is erased, so it cannot be replayed."
    return state, "It stays in the DLQ until somebody replays or discards it."


def _held(delivery: Delivery, about: Circumstances) -> tuple[str, str]:
    holder, attempt = delivery.worker_id, delivery.attempt_count
    if delivery.current_state is State.LEASED:
        state = f"{holder} has claimed it and prepares attempt {attempt + 1}."
    else:
        state = f"{holder} waits for the answer to attempt {attempt}."
    expires = delivery.lease_expires_at
    if expires is None:
        return state, "The worker settles it."
    until = format_moment(expires)
    if expires > about.now:
        return state, f"Its lease holds until {until}; should the worker die, another takes over."
    following = f"Its lease ran out at {until}: the next worker that looks takes it back."
    return state, following if about.workers else f"{following} {_no_worker(about)}"


def _waiting(
    delivery: Delivery, timeline: Timeline, about: Circumstances
) -> tuple[str, str, datetime | None]:
    state = _why_waiting(timeline)
    if about.is_removed:
        return state, "A worker moves it to the DLQ: its subscription is removed.", None
    if about.is_erased:
        return state, "A worker moves it to the DLQ: its payload is erased.", None
    attempt = delivery.attempt_count + 1
    if about.is_paused:
        why = about.subscription.paused_reason
        held = f"It is held: its subscription is paused{f' ({why})' if why else ''}."
        return f"{state} {held}", f"Attempt {attempt} is made when somebody resumes it.", None
    due = delivery.next_attempt_at
    if due is not None and due > about.now:
        when = f"Attempt {attempt} is due at {format_moment(due)}"
        return state, f"{when}{_unless_no_worker(about)}.", due
    return state, f"Attempt {attempt} is due. {_what_for(about)}", None


def _why_waiting(timeline: Timeline) -> str:
    """Say what the newest rows say: a RETRIED row follows the fact that led to it."""
    before = timeline.rows[-2] if len(timeline.rows) > 1 else None
    if before is None or before.state not in set(Fact):
        return "It is encrypted and waits for its first attempt."
    detail = before.detail or {}
    match before.state:
        case Fact.FAILED:
            said = before.http_status_code or detail.get("class") or "an error"
            return f"Its last attempt ended with {said}, which is retried."
        case Fact.LEASE_EXPIRED:
            return f"The lease of {before.worker_id} ran out without an outcome."
        case Fact.RELEASED:
            return f"{before.worker_id} gave it back unsent: {detail.get('reason')}."
        case _:
            return f"{detail.get('operator') or before.worker_id} sends it again."


def _what_for(about: Circumstances) -> str:
    """Say what a due delivery waits for; only its claim will know for certain."""
    subscription = about.subscription
    if not about.workers:
        return _no_worker(about)
    if about.behind is not None:
        return f"It waits for its turn behind {about.behind}."
    limits = []
    if subscription.rate_limit_per_second is not None:
        limits.append(f"{subscription.rate_limit_per_second:g} per second")
    if subscription.max_in_flight is not None:
        limits.append(f"{subscription.max_in_flight} in flight")
    if limits:
        return f"A worker claims it as its subscription's limit allows: {', '.join(limits)}."
    return "The next worker with a free slot claims it."


def _unless_no_worker(about: Circumstances) -> str:
    return "" if about.workers else f", if a worker runs by then. {_no_worker(about)[:-1]}"


def _no_worker(about: Circumstances) -> str:
    if about.last_beat is None:
        return "No worker has ever reported itself."
    return f"No worker is running: the last one reported at {format_moment(about.last_beat)}."


def obstacle(about: Circumstances) -> str | None:
    """Say why it cannot be sent any more, whatever its state; None when it can."""
    if about.is_removed:
        return "Its subscription was removed: there is nowhere to send it."
    if about.is_erased:
        return "Its payload was erased: there is nothing to send."
    return None


def is_held(delivery: Delivery, about: Circumstances) -> bool:
    """Tell whether it waits because its subscription is paused."""
    return about.is_paused and delivery.current_state in WAITING
