"""What people look at, besides deliveries and subscriptions: frozen, without behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Event:
    """What a producer published, without its payload."""

    id: UUID
    event_type: str
    content_type: str
    payload_bytes: int
    idempotency_key: str | None
    node: str
    sealed_by: str | None
    only_subscription_id: UUID | None
    erased_at: datetime | None
    created_at: datetime
    is_fanned_out: bool
    """Its deliveries exist; an event that nobody subscribed to has none."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A bulk replay, from its draft on."""

    id: UUID
    state: str
    filter: Mapping[str, list[str]]
    """As the list has it; moments absolute, states written out."""
    is_newest_first: bool
    reason: str | None
    rate_per_second: float | None
    """For each subscription; None: as fast as they can be requeued."""
    matched: int
    """Deliveries in the filter when the draft was made."""
    eligible: int
    """Of those, the ones that can be sent again."""
    already_delivered: int
    """Of the eligible, those that were delivered when the draft was made."""
    not_eligible: Mapping[str, int]
    """The others, by the reason: ``removed erased discarded held waiting replayed``."""
    requeued: int
    skipped: int
    """Of the eligible, those that had left their state when their turn came."""
    delivered: int
    """Of the requeued, those delivered; a second old while many are, like the next two."""
    failed: int
    """Of the requeued, those in the DLQ again."""
    passed_on: int
    """Of the requeued, those that another replay took over before they ended."""
    first_failures: Sequence[UUID]
    """The first few of the requeued whose attempts failed."""
    paused_reason: str | None
    """Why it paused itself; None: it did not."""
    failure: str | None
    created_by: str
    created_at: datetime
    expires_at: datetime
    started_by: str | None
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def remaining(self) -> int:
        """Those whose turn has not come; of a cancelled replay, those that never will be sent."""
        return self.eligible - self.requeued - self.skipped

    @property
    def in_flight(self) -> int:
        """Of the requeued, those that wait, or are being sent."""
        return self.requeued - self.delivered - self.failed - self.passed_on


@dataclass(frozen=True, slots=True)
class ReplayPart:
    """What a bulk replay sends to one subscription."""

    subscription_id: UUID
    name: str | None
    """None: nothing is known of it any more."""
    eligible: int
    requeued: int
    is_done: bool


@dataclass(frozen=True, slots=True)
class Discard:
    """A bulk discard, from its draft on."""

    id: UUID
    state: str
    filter: Mapping[str, list[str]]
    """As the list has it; moments absolute, states written out."""
    reason: str | None
    matched: int
    """Deliveries in the filter when the draft was made."""
    eligible: int
    """Of those, the ones that can be given up."""
    discarded: int
    skipped: int
    """Of the eligible, those that had left their state when their turn came."""
    failure: str | None
    created_by: str
    created_at: datetime
    expires_at: datetime
    started_by: str | None
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def remaining(self) -> int:
        """Those whose turn has not come; of a cancelled discard, those that stay as they are."""
        return self.eligible - self.discarded - self.skipped


@dataclass(frozen=True, slots=True)
class Action:
    """What a person or a token did, or was refused."""

    id: int
    actor: str
    action: str
    target: str
    params: Mapping[str, object] | None
    affected: int | None
    outcome: str
    request_id: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class User:
    """A person who may log in."""

    id: UUID
    name: str
    role: str
    disabled_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A program's access; its text was shown once."""

    id: UUID
    name: str
    role: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process as it reported itself, and as its leases tell.

    Attributes:
        node: where it runs; like all of the report None for one that only its leases tell of.
        state: ``running``, ``draining`` or ``stopped``.
        beat_at: its last report.
        attempts_per_minute: over the five minutes before it; None: it does not say.
        p95_ms: of those requests; None: there was none.
        leases: what it holds now.
        oldest_at: since when the oldest of them is where it is; None: it holds none.
        overdue: of the leases, those that ran out and were not taken back yet.
        fenced_last_hour: its late writes that fencing refused.
    """

    worker_id: str
    node: str | None
    version: str | None
    transport: str | None
    concurrency: int | None
    state: str | None
    started_at: datetime | None
    beat_at: datetime | None
    attempts_per_minute: float | None
    p95_ms: float | None
    leases: int
    oldest_at: datetime | None
    overdue: int
    fenced_last_hour: int
    fenced_last_day: int
