"""A delivery's trail, written by hand for tests of what is told of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from fencepost.explanation import Circumstances
from fencepost.model import Delivery, FencedWrite, Subscription, TrailRow
from fencepost.states import State
from fencepost.timeline import Excerpt, Timeline, build

ORIGIN = datetime(2026, 11, 30, 16, 53, 20, 1000, tzinfo=UTC)
DELIVERY_ID = UUID("01940000-0000-7000-8000-000000000001")


def at(ms: float) -> datetime:
    return ORIGIN + timedelta(milliseconds=ms)


class Trail:
    """Writes rows as the store does: seq without gaps, times in milliseconds from the first."""

    def __init__(self) -> None:
        self.rows: list[TrailRow] = []

    def add(
        self,
        ms: float,
        state: str,
        worker: str | None = None,
        token: int = 0,
        *,
        status: int | None = None,
        said: str | None = None,
        **detail: object,
    ) -> Trail:
        row = TrailRow(
            seq=len(self.rows) + 1,
            state=state,
            created_at=at(ms),
            worker_id=worker,
            fencing_token=token,
            http_status_code=status,
            latency_ms=None,
            error_message=said,
            detail=detail or None,
        )
        self.rows.append(row)
        return self

    def build(self, now: float, *fenced: FencedWrite, is_paused: bool = False) -> Timeline:
        return build(
            self.rows,
            delivery=delivery(self.rows),
            fenced=fenced,
            now=at(now),
            is_paused=is_paused,
        )

    def part(self, first: int, last: int, *, attempts: int, now: float = 10**9) -> Timeline:
        """Build from the rows ``first`` to ``last`` alone."""
        rows = self.rows[first - 1 : last]
        excerpt = Excerpt(ORIGIN, attempts, is_last=last == len(self.rows))
        return build(rows, delivery=delivery(self.rows), fenced=(), now=at(now), excerpt=excerpt)


def delivery(
    rows: list[TrailRow], next_attempt_at: datetime | None = None, **more: Any
) -> Delivery:
    states = [State(row.state) for row in rows if row.state in set(State)]
    attempts = states.count(State.ATTEMPTED)
    found = Delivery(
        id=DELIVERY_ID,
        event_id=DELIVERY_ID,
        event_type="invoice.paid",
        subscription_id=DELIVERY_ID,
        current_state=states[-1],
        seq=len(rows),
        attempt_count=attempts,
        max_attempts=5,
        budget_start=0,
        next_attempt_at=next_attempt_at,
        worker_id=None,
        fencing_token=0,
        lease_expires_at=None,
        last_status=None,
        last_error=None,
        dead_reason=None,
        dead_at=None,
        discarded_at=None,
        replay_id=None,
        created_at=ORIGIN,
        updated_at=ORIGIN,
    )
    return replace(found, **more)


def late(ms: float, worker: str, token: int, would_write: str = "DELIVERED") -> FencedWrite:
    return FencedWrite(DELIVERY_ID, worker, token, would_write, at(ms), None)


def taken_in() -> Trail:
    return Trail().add(0, "RECEIVED", "web-1").add(12, "ENCRYPTED")


def failed_once(*, delay_ms: int = 15_000, status: int = 503) -> Trail:
    """Attempt 1 fails after 100 ms, at 130 ms."""
    trail = taken_in().add(20, "LEASED", "a", 1, waited_for="worker").add(30, "ATTEMPTED", "a", 1)
    trail.add(130, "FAILED", "a", 1, status=status, **{"class": f"http_{status // 100}xx"})
    due = at(130 + delay_ms).isoformat()
    return trail.add(130, "RETRIED", "a", 1, delay_ms=delay_ms, due_at=due)


def fenced_out() -> Trail:
    """The lease of attempt 1 runs out while its request is open; attempt 2 goes through."""
    trail = taken_in().add(380, "LEASED", "a1", 41).add(391, "ATTEMPTED", "a1", 41)
    trail.add(30_380, "LEASE_EXPIRED", "a1", 41)
    trail.add(30_380, "RETRIED", "b2", 41, delay_ms=0)
    trail.add(30_900, "LEASED", "b2", 42).add(30_910, "ATTEMPTED", "b2", 42)
    return trail.add(31_420, "DELIVERED", "b2", 42, status=200)


def circumstances(now: float, **more: Any) -> Circumstances:
    """A running worker and an active subscription without limits."""
    of_subscription = {
        name: more.pop(name) for name in list(more) if name in Subscription.__slots__
    }
    subscription = Subscription(
        DELIVERY_ID, "orders", "https://e.test", "https://e.test/***", ("*",), "standard", None,
        (), 5, 15.0, 3600.0, None, (), (), None, None, False, "active", None, ORIGIN, None,
    )  # fmt: skip
    found = Circumstances(
        now=at(now),
        subscription=replace(subscription, **of_subscription),
        is_erased=False,
        workers=1,
        last_beat=at(now - 500),
        behind=None,
    )
    return replace(found, **more)
