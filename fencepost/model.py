"""The things Fencepost moves around: frozen, without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from fencepost.states import State


class ErrorClass(StrEnum):
    """What kind of failure it was. Source: CONTRACT section 3."""

    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    RESET = "reset"
    BAD_RESPONSE = "bad_response"
    REDIRECT = "redirect"
    HTTP_4XX = "http_4xx"
    HTTP_5XX = "http_5xx"
    ADDRESS_FORBIDDEN = "address_forbidden"
    INVALID_URL = "invalid_url"
    PAYLOAD_UNDECRYPTABLE = "payload_undecryptable"
    PAYLOAD_ERASED = "payload_erased"
    INVALID_HEADER = "invalid_header"
    KEY_UNAVAILABLE = "key_unavailable"
    SUBSCRIPTION_REMOVED = "subscription_removed"
    CRASH_LOOP = "crash_loop"
    LEASE_EXPIRED = "lease_expired"
    LOCAL_ERROR = "local_error"


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a delivery's state: every guarded write presents all three."""

    delivery_id: UUID
    worker_id: str
    fencing_token: int


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One HTTP request, ready to leave: its ATTEMPTED row is committed."""

    lease: Lease
    url: str
    """As the subscription has it; the transport's guard judges it again."""
    headers: tuple[tuple[str, str], ...]
    """All of ours and the subscription's; not Host, Content-Length, Connection."""
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """What one request came to: a status, or the class of failure, never neither.

    All text is safe to store: no NUL, no lone surrogate, bounded length.
    """

    status: int | None
    """100..999 as the status line said it; None when none arrived."""
    error: ErrorClass | None = None
    """Why there is no status."""
    message: str | None = None
    """One line for a person; with a status, what was wrong with its body."""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = field(default=b"", repr=False)
    """At most 4 KiB of what was read, raw: never decoded."""
    body_truncated: bool = False
    latency_ms: int = 0
    """From the look-up to the last byte that was waited for."""
    detail: Mapping[str, object] = field(default_factory=dict)
    """JSON: ``ip``; ``dns_ms connect_ms tls_ms first_byte_ms`` as far as known."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription as people see it: nothing secret in it."""

    id: UUID
    name: str
    endpoint_origin: str
    endpoint_masked: str
    event_types: tuple[str, ...]
    signature_scheme: str
    signature_header: str | None
    header_names: tuple[str, ...]
    max_attempts: int
    backoff_base_seconds: float
    backoff_cap_seconds: float
    retry_preset: str | None
    retry_statuses: tuple[int, ...]
    no_retry_statuses: tuple[int, ...]
    max_in_flight: int | None
    rate_limit_per_second: float | None
    ordered: bool
    state: str
    paused_reason: str | None
    created_at: datetime
    removed_at: datetime | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event on its way to one subscription."""

    id: UUID
    event_id: UUID
    event_type: str
    subscription_id: UUID
    current_state: State
    seq: int
    attempt_count: int
    max_attempts: int
    budget_start: int
    next_attempt_at: datetime | None
    worker_id: str | None
    fencing_token: int
    lease_expires_at: datetime | None
    last_status: int | None
    last_error: str | None
    dead_reason: str | None
    dead_at: datetime | None
    discarded_at: datetime | None
    replay_id: UUID | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class TrailRow:
    """One row of the trail: a move, or a fact that explains one."""

    seq: int
    state: str
    created_at: datetime
    worker_id: str | None
    fencing_token: int | None
    http_status_code: int | None
    latency_ms: int | None
    error_message: str | None
    detail: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class FencedWrite:
    """A late write that fencing refused."""

    delivery_id: UUID
    worker_id: str
    fencing_token: int
    would_write: str
    noted_at: datetime
    detail: Mapping[str, object] | None
