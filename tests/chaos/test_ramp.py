"""A receiver comes back to a backlog that is all due: it is ramped up to, and nobody else waits.

``TEST_RAMP=100000`` makes the backlog a large one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import psycopg
import pytest
from psycopg import Connection

from factories import publish, subscribe
from fencepost.keyring import Keyring
from invariants import check
from programs import Program, wait_for_workers
from receiver import Answer, Received, Receiver
from waiting import eventually

BACKLOG = int(os.environ.get("TEST_RAMP", "3000"))
WORKERS = 2
SLOWNESS = 0.1
"""Seconds that an answer takes: what is open at once is what the workers chose to open."""

MOST = 32
"""``FENCEPOST_MAX_IN_FLIGHT_PER_SUBSCRIPTION``, of each worker."""

FAILURES = 20 * WORKERS
"""After so many in a row no worker believes in the receiver any more."""

SAMPLES = 150
"""Events of the other subscription in its baseline; while the backlog drains, as many or more."""

FEW = 10
"""Events of the other subscription on their way: 50 a second, so a fifth of a second's worth."""

TOLERANCE = 0.4
"""Seconds that a busy machine may add to a wait; behind the backlog it would be many times that."""


class Returning:
    """Answers 503 until it is ``back``; notes how its answers and its crowd grew from then on."""

    def __init__(self) -> None:
        self.refused = self.accepted = 0
        self.is_back = False
        self.growth: list[tuple[int, int]] = []
        """For each request since then: how many were open, and how many had been accepted."""
        self._guard = threading.Lock()

    def __call__(self, received: Received) -> Answer:
        if received.target == "/steady":
            return Answer(200)
        with self._guard:
            if not self.is_back:
                self.refused += 1
                return Answer(503)
            self.growth.append((received.crowd, self.accepted))
        threading.Event().wait(SLOWNESS)
        with self._guard:
            self.accepted += 1
        return Answer(200)


class Steady:
    """Publishes for the other subscription, event after event, and knows when it did."""

    def __init__(self, url: str) -> None:
        self.published: dict[str, float] = {}
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as conn:
            while not self._stop.wait(0.02):
                now = time.time()
                (event_id,) = publish(conn, "steady.x")
                self.published[str(event_id)] = now

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def waits(self, receiver: Receiver, since: float, until: float) -> list[float]:
        """Give the seconds from publishing to arrival, in order of size."""
        arrived = {got.header("webhook-id"): got.at for got in list(receiver.requests)}
        return sorted(
            arrived[event_id] - at
            for event_id, at in list(self.published.items())
            if since <= at < until and event_id in arrived
        )


def test_a_backlog_ramps_up_and_delays_nobody_else(
    db: Connection[Any],
    db_url: str,
    start: Callable[..., Program],
    endpoint_keyring: Keyring,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = Returning()
    with Receiver(script) as receiver:
        for name in ("back", "steady"):
            url, patterns = f"{receiver.url}/{name}", [f"{name}.%"]
            subscribe(
                db,
                endpoint_keyring,
                url,
                event_type_patterns=patterns,
                max_attempts=1000,
                backoff_base_seconds=0.5,
                backoff_cap_seconds=0.5,
            )
        for number in range(WORKERS):
            start(f"w{number}")
        wait_for_workers(db, WORKERS)
        with Steady(db_url) as steady:
            receiver.wait_for(1)
            began = time.time()
            receiver.wait_for(SAMPLES, timeout=60)
            baseline = steady.waits(receiver, began, time.time())
            publish(db, "back.x", BACKLOG)
            eventually(lambda: count(db, "event_type = 'back.x'") == BACKLOG, within=300)
            eventually(lambda: script.refused >= FAILURES)
            # What was published behind the backlog has waited for its fan-out; that is over first.
            eventually(lambda: waiting_events(db) < FEW, within=60)
            back_at = time.time()
            script.is_back = True
            eventually(lambda: script.accepted >= BACKLOG - MOST * WORKERS, within=900)
            meanwhile = steady.waits(receiver, back_at, time.time() - 1)
        eventually(lambda: count(db, "current_state <> 'DELIVERED'") == 0, within=60)
        check(db, receiver.requests)
    crowds = [crowd for crowd, _ in script.growth]
    begun = next(place for place, crowd in enumerate(crowds) if crowd >= max(crowds) / 2)
    p50, p99 = (share(baseline, part) * 1000 for part in (0.5, 0.99))
    p50_then, p99_then = (share(meanwhile, part) * 1000 for part in (0.5, 0.99))
    with capsys.disabled():
        print(
            f"\n{BACKLOG} due after an outage: {crowds[0]} open at first,"
            f" {max(crowds) // 2} after {begun} requests, at most {max(crowds)};"
            f" others waited p50 {p50:.0f} and p99 {p99:.0f} ms before,"
            f" {p50_then:.0f} and {p99_then:.0f} ms meanwhile ({len(meanwhile)} events)"
        )
    # Each worker begins with one, and every success lets it open one more.
    assert all(crowd <= WORKERS + accepted for crowd, accepted in script.growth)
    assert MOST < max(crowds) <= MOST * WORKERS
    assert p99_then <= max(2 * p99, TOLERANCE * 1000)


def waiting_events(db: Connection[Any]) -> int:
    """Count the other subscription's events that are not delivered yet."""
    row = db.execute(
        "SELECT (SELECT count(*) FROM webhook_outbox) + (SELECT count(*) FROM webhook_deliveries"
        " WHERE event_type = 'steady.x' AND current_state <> 'DELIVERED')"
    ).fetchone()
    assert row is not None
    return int(row[0])


def share(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def count(db: Connection[Any], condition: str) -> int:
    row = db.execute(
        f"SELECT count(*) FROM webhook_deliveries WHERE {condition}".encode()
    ).fetchone()
    assert row is not None
    return int(row[0])
