"""The JSON objects that API and command line show alike. Source: CONTRACT section 7."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from fencepost.explanation import Explanation
from fencepost.figures import Percentiles, Stats
from fencepost.model import Delivery, FencedWrite, Subscription, TrailRow
from fencepost.records import (
    Action,
    ApiToken,
    Discard,
    Event,
    Replay,
    ReplayPart,
    User,
    Worker,
)
from fencepost.subscription_spec import MASK
from fencepost.timeline import Segment, Timeline

Object = dict[str, Any]


def moment(at: datetime | None) -> str | None:
    """Write a moment in RFC 3339, in UTC, to the microsecond that the database has."""
    if at is None:
        return None
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def subscription_json(found: Subscription, *, secret: str | None = None) -> Object:
    """Show a subscription; with its secret in the answer to creation and rotation alone."""
    shown: Object = {
        "id": str(found.id),
        "name": found.name,
        "url": found.endpoint_masked,
        "event_types": list(found.event_types),
        "signature_scheme": found.signature_scheme,
        "signature_header": found.signature_header,
        "headers": dict.fromkeys(found.header_names, MASK),
        "max_attempts": found.max_attempts,
        "backoff_base_seconds": found.backoff_base_seconds,
        "backoff_cap_seconds": found.backoff_cap_seconds,
        "retry_preset": found.retry_preset,
        "retry_statuses": list(found.retry_statuses),
        "no_retry_statuses": list(found.no_retry_statuses),
        "max_in_flight": found.max_in_flight,
        "rate_limit_per_second": found.rate_limit_per_second,
        "ordered": found.ordered,
        "state": found.state,
        "paused_reason": found.paused_reason,
        "created_at": moment(found.created_at),
        "removed_at": moment(found.removed_at),
    }
    return shown if secret is None else {**shown, "secret": secret}


def delivery_json(found: Delivery) -> Object:
    """Show a delivery."""
    return {
        "id": str(found.id),
        "event_id": str(found.event_id),
        "event_type": found.event_type,
        "subscription_id": str(found.subscription_id),
        "state": found.current_state.value,
        "attempt_count": found.attempt_count,
        "max_attempts": found.max_attempts,
        "next_attempt_at": moment(found.next_attempt_at),
        "worker_id": found.worker_id,
        "fencing_token": found.fencing_token,
        "lease_expires_at": moment(found.lease_expires_at),
        "last_status": found.last_status,
        "last_error": found.last_error,
        "dead_reason": found.dead_reason,
        "dead_at": moment(found.dead_at),
        "discarded_at": moment(found.discarded_at),
        "replay_id": None if found.replay_id is None else str(found.replay_id),
        "created_at": moment(found.created_at),
        "updated_at": moment(found.updated_at),
    }


def event_json(found: Event, deliveries: Iterable[Delivery]) -> Object:
    """Show an event; its deliveries are null until it is fanned out."""
    return {
        "id": str(found.id),
        "event_type": found.event_type,
        "content_type": found.content_type,
        "payload_bytes": found.payload_bytes,
        "idempotency_key": found.idempotency_key,
        "published_at": moment(found.created_at),
        "erased_at": moment(found.erased_at),
        "deliveries": [delivery_json(one) for one in deliveries] if found.is_fanned_out else None,
    }


def trail_json(found: Timeline, explained: Explanation | None = None) -> Object:
    """Show a timeline: the trail's rows, the segments between them, and what was fenced out.

    Args:
        found: the timeline.
        explained: why the delivery stands where it does and what comes next; None: unsaid.
    """
    told: Object = {
        "rows": [row_json(row) for row in found.rows],
        "segments": [_segment(segment) for segment in found.segments],
        "fenced": [fenced_json(write) for write in found.fenced],
    }
    if explained is not None:
        told["explanation"] = {
            "state": explained.state,
            "next": explained.next,
            "next_at": moment(explained.next_at),
            "causes": list(explained.causes),
        }
    return told


def row_json(row: TrailRow) -> Object:
    """Show a row of a trail."""
    return {
        "seq": row.seq,
        "state": row.state,
        "at": moment(row.created_at),
        "worker_id": row.worker_id,
        "fencing_token": row.fencing_token,
        "http_status_code": row.http_status_code,
        "latency_ms": row.latency_ms,
        "error_message": row.error_message,
        "detail": _mapping(row.detail),
    }


def _segment(segment: Segment) -> Object:
    return {
        "kind": segment.kind.value,
        "start_ms": segment.start_ms,
        "duration_ms": segment.duration_ms,
        "worker_id": segment.worker_id,
        "fencing_token": segment.fencing_token,
        "attempt": segment.attempt,
        "outcome": segment.outcome,
        "waited_for": segment.waited_for,
        "is_open": segment.is_open,
        "seq": segment.seq,
    }


def fenced_json(write: FencedWrite) -> Object:
    """Show a late write that was refused."""
    return {
        "worker_id": write.worker_id,
        "fencing_token": write.fencing_token,
        "would_write": write.would_write,
        "at": moment(write.noted_at),
        "detail": _mapping(write.detail),
    }


def replay_json(found: Replay, parts: Iterable[ReplayPart] | None = None) -> Object:
    """Show a bulk replay.

    Args:
        found: the replay.
        parts: what it sends to whom, the largest first; None: unsaid.
    """
    shown = _replay(found)
    if parts is not None:
        shown["subscriptions"] = [
            {
                "subscription_id": str(part.subscription_id),
                "eligible": part.eligible,
                "requeued": part.requeued,
            }
            for part in parts
        ]
    return shown


def _replay(found: Replay) -> Object:
    return {
        "id": str(found.id),
        "state": found.state,
        "filter": dict(found.filter),
        "reason": found.reason,
        "order": "newest_first" if found.is_newest_first else "oldest_first",
        "rate_per_second": found.rate_per_second,
        "matched": found.matched,
        "eligible": found.eligible,
        "already_delivered": found.already_delivered,
        "not_eligible": dict(found.not_eligible),
        "requeued": found.requeued,
        "delivered": found.delivered,
        "failed": found.failed,
        "passed_on": found.passed_on,
        "in_flight": found.in_flight,
        "skipped": found.skipped,
        "remaining": found.remaining,
        "first_failures": [str(id_) for id_ in found.first_failures],
        "paused_reason": found.paused_reason,
        "failure": found.failure,
        "created_by": found.created_by,
        "created_at": moment(found.created_at),
        "expires_at": moment(found.expires_at),
        "started_by": found.started_by,
        "started_at": moment(found.started_at),
        "finished_at": moment(found.finished_at),
    }


def discard_json(found: Discard) -> Object:
    """Show a bulk discard."""
    return {
        "id": str(found.id),
        "state": found.state,
        "filter": dict(found.filter),
        "reason": found.reason,
        "matched": found.matched,
        "eligible": found.eligible,
        "discarded": found.discarded,
        "skipped": found.skipped,
        "remaining": found.remaining,
        "failure": found.failure,
        "created_by": found.created_by,
        "created_at": moment(found.created_at),
        "expires_at": moment(found.expires_at),
        "started_by": found.started_by,
        "started_at": moment(found.started_at),
        "finished_at": moment(found.finished_at),
    }


def stats_json(found: Stats) -> Object:
    """Show the figures of a window."""
    figures = found.figures
    return {
        "from": moment(found.window.since),
        "to": moment(found.window.until),
        "as_of": moment(found.as_of),
        "subscription_id": None if found.sub is None else str(found.sub),
        "received": found.received,
        "states": {state.value: count for state, count in found.states.items()},
        "retry_rate": figures.retry_rate,
        "first_try_rate": figures.first_try_rate,
        "tries_per_delivery": figures.tries_per_delivery,
        "segments": {one.kind: _percentiles(one) for one in figures.percentiles()},
        "waits": {one.kind: _percentiles(one) for one in figures.waits()},
        "attempts": figures.attempts,
        "delivered": figures.delivered,
        "failed": figures.failed,
        "lease_expiries": figures.lease_expiries,
        "dead_lettered": figures.dead,
        "dead_letter_reasons": dict(figures.dead_by_reason),
        "replayed": figures.replayed,
        "discarded": figures.discarded,
        "fenced_writes": figures.fenced,
    }


def _percentiles(found: Percentiles) -> Object:
    return {
        "count": found.count,
        "p50_ms": round(found.p50_ms, 3),
        "p95_ms": round(found.p95_ms, 3),
        "p99_ms": round(found.p99_ms, 3),
        "max_ms": round(found.max_ms, 3),
    }


def user_json(found: User) -> Object:
    """Show a user."""
    return {
        "id": str(found.id),
        "name": found.name,
        "role": found.role,
        "disabled_at": moment(found.disabled_at),
        "created_at": moment(found.created_at),
    }


def token_json(found: ApiToken, *, text: str | None = None) -> Object:
    """Show a token; with its text in the answer to its creation alone."""
    shown: Object = {
        "id": str(found.id),
        "name": found.name,
        "role": found.role,
        "created_at": moment(found.created_at),
        "expires_at": moment(found.expires_at),
        "revoked_at": moment(found.revoked_at),
        "last_used_at": moment(found.last_used_at),
    }
    return shown if text is None else {"token": text, **shown}


def action_json(found: Action) -> Object:
    """Show what somebody did."""
    return {
        "id": found.id,
        "actor": found.actor,
        "action": found.action,
        "target": found.target,
        "params": _mapping(found.params),
        "affected": found.affected,
        "outcome": found.outcome,
        "request_id": found.request_id,
        "at": moment(found.created_at),
    }


def worker_json(found: Worker, *, health: str) -> Object:
    """Show a worker as it reported itself, and as its leases tell."""
    return {
        "worker_id": found.worker_id,
        "health": health,
        "node": found.node,
        "version": found.version,
        "transport": found.transport,
        "concurrency": found.concurrency,
        "started_at": moment(found.started_at),
        "beat_at": moment(found.beat_at),
        "attempts_per_minute": found.attempts_per_minute,
        "p95_ms": found.p95_ms,
        "leases": found.leases,
        "oldest_lease_at": moment(found.oldest_at),
        "overdue_leases": found.overdue,
        "fenced_last_hour": found.fenced_last_hour,
        "fenced_last_day": found.fenced_last_day,
    }


def _mapping(found: Mapping[str, object] | None) -> Object | None:
    return None if found is None else dict(found)
