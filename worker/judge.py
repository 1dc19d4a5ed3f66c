"""How an attempt ends: by what was answered, and by what is left of its budget."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from fencepost.model import ErrorClass, Reply
from fencepost.outcomes import Outcome, Verdict, classify
from fencepost.retry import RetryPolicy, parse_retry_after
from fencepost.states import Cause, State
from fencepost.store.leases import Attempted
from fencepost.store.settlements import Settlement
from worker.prepare import Prepared

UNJUDGED_DELAY = timedelta(minutes=1)
"""Before a request is sent again whose outcome a defect of ours kept from being judged."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """A request that has left: what it takes to judge its answer."""

    prepared: Prepared
    attempted: Attempted


def judge(
    flight: InFlight, reply: Reply, *, chance: random.Random, was_lost: bool = False
) -> Settlement:
    """Decide how the attempt ends: by what was answered, and by what is left of the budget."""
    claimed, sealed = flight.prepared.claimed, flight.prepared.endpoint.sealed
    outcome = classify(
        reply,
        retry_statuses=sealed.retry_statuses,
        no_retry_statuses=sealed.no_retry_statuses,
    )
    cause, delay, reason = _sentence(flight, reply, outcome, chance)
    return Settlement(
        lease=claimed.lease,
        state=State.ATTEMPTED,
        cause=cause,
        delay=delay,
        status=outcome.status,
        latency_ms=reply.latency_ms,
        error=outcome.error,
        message=outcome.message,
        detail=reply.detail,
        reason=reason,
        is_ours=outcome.error is ErrorClass.LOCAL_ERROR,
        pauses=outcome.pauses,
        was_aborted=was_lost and reply.status is None,
    )


def unjudged(flight: InFlight, reply: Reply) -> Settlement:
    """End an attempt whose outcome our own code could not judge; it does not count."""
    return Settlement(
        flight.prepared.claimed.lease,
        State.ATTEMPTED,
        Cause.RETRY,
        delay=UNJUDGED_DELAY,
        status=reply.status,
        latency_ms=reply.latency_ms,
        error=ErrorClass.LOCAL_ERROR,
        message="this version cannot judge the outcome; see its log",
        reason="local_error",
        is_ours=True,
    )


def _sentence(
    flight: InFlight, reply: Reply, outcome: Outcome, chance: random.Random
) -> tuple[Cause, timedelta | None, str | None]:
    if outcome.verdict is Verdict.DELIVERED:
        return Cause.SUCCEED, None, None
    if outcome.verdict is Verdict.REJECT:
        return Cause.REJECT, None, "not_retryable"
    claimed, sealed, attempted = (
        flight.prepared.claimed, flight.prepared.endpoint.sealed, flight.attempted
    )  # fmt: skip
    policy = RetryPolicy(
        max_attempts=claimed.max_attempts,
        base=timedelta(seconds=sealed.backoff_base_seconds),
        cap=timedelta(seconds=sealed.backoff_cap_seconds),
        preset=sealed.retry_preset,
    )
    ended_at = attempted.now + timedelta(milliseconds=reply.latency_ms)
    floor = parse_retry_after(outcome.retry_after_raw, now=ended_at)
    used = attempted.attempt_count - claimed.budget_start
    if outcome.error is ErrorClass.LOCAL_ERROR:
        # The attempt does not count: what is left is what was left before it.
        return Cause.RETRY, policy.delay(used, chance), "local_error"
    delay = policy.next_attempt(
        used,
        first_attempt_at=attempted.first_attempt_at,
        now=ended_at,
        random=chance,
        floor=floor,
    )
    if delay is None:
        return Cause.EXHAUST, None, "budget_spent"
    return Cause.RETRY, delay, None if floor is None else "retry_after"
