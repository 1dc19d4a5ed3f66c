"""Limits of a subscription hold over all workers together, as its receiver counts.

One rate and one number of workers is tried; with ``TEST_LIMITS=all``, every pair of them.
"""

from __future__ import annotations

import os
import signal
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from psycopg import Connection

from factories import publish, subscribe
from fencepost.keyring import Keyring
from invariants import check
from programs import Program, wait_for_workers
from receiver import Answer, Received, Receiver
from waiting import eventually

EVERY = [(rate, workers) for rate in (5, 50, 500) for workers in (1, 2, 4)]
TRIED = EVERY if os.environ.get("TEST_LIMITS") == "all" else [(50, 4)]

WINDOW = 10.0
"""Seconds in which a rate must be kept and reached."""

TRIAL = WINDOW + 1.5
"""Seconds that are watched: each request of the first 1.5 begins a window."""

MOST_OPEN = 6
"""``max_in_flight`` of the other subscription."""


@pytest.mark.parametrize(("rate", "workers"), TRIED, ids=str)
def test_rate_and_requests_in_flight_are_limited_over_all_workers(
    db: Connection[Any],
    start: Callable[..., Program],
    endpoint_keyring: Keyring,
    capsys: pytest.CaptureFixture[str],
    rate: int,
    workers: int,
) -> None:
    with Receiver(slow_where_open_ones_are_counted) as receiver:
        for name, limit in {
            "rate": {"rate_limit_per_second": rate},
            "open": {"max_in_flight": MOST_OPEN},
        }.items():
            url = f"{receiver.url}/{name}"
            subscribe(db, endpoint_keyring, url, event_type_patterns=[f"{name}.%"], **limit)

        def seen(name: str) -> list[Received]:
            return [got for got in list(receiver.requests) if got.target == f"/{name}"]

        programs = [start(f"w{number}") for number in range(workers)]
        wait_for_workers(db, workers)
        publish(db, "open.x", 20 * MOST_OPEN * int(TRIAL))
        publish(db, "rate.x", int(rate * (TRIAL + 2)))
        first = eventually(lambda: seen("rate"))[0].at
        eventually(lambda: seen("rate")[-1].at > first + TRIAL, within=60)
        limited, crowds = seen("rate"), [got.crowd for got in seen("open")]
        senders = count_senders(db)
        for program in programs:
            program.send(signal.SIGTERM)
        assert [program.wait() for program in programs] == [0] * workers
        check(db, receiver.requests)
    # Windows that begin with a request see the most, those that begin just after one the least.
    starts = [got.at for got in limited]
    windows = [
        bisect_left(starts, begin + WINDOW) - place
        for place, begin in enumerate(starts)
        if begin <= starts[-1] - WINDOW
    ]
    with capsys.disabled():
        print(
            f"\n{rate}/s, {workers} workers ({senders} sent): {min(windows)} to {max(windows)} in"
            f" any {WINDOW:g} s; at most {max(crowds)} of {MOST_OPEN} open, {len(crowds)} requests"
        )
    assert max(windows) <= 1.1 * rate * WINDOW
    assert min(windows) - 1 >= 0.9 * rate * WINDOW
    assert max(crowds) == MOST_OPEN
    assert senders == workers


def slow_where_open_ones_are_counted(received: Received) -> Answer:
    return Answer(200, delay=0.05 if received.target == "/open" else 0)


def count_senders(db: Connection[Any]) -> int:
    row: Sequence[int] | None = db.execute(
        "SELECT count(DISTINCT worker_id) FROM webhook_delivery_attempts WHERE state = 'ATTEMPTED'"
    ).fetchone()
    assert row is not None
    return row[0]
