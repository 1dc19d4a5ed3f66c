"""A timeline reads like the one an engineer would have written by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model import FencedWrite, TrailRow
from fencepost.states import Fact, State
from fencepost.timeline_text import as_text, describe, format_duration, format_line, format_offset

ORIGIN = datetime(2026, 11, 30, 16, 53, 20, tzinfo=UTC)


def row(
    ms: float,
    state: str,
    worker: str | None = None,
    token: int | None = None,
    *,
    status: int | None = None,
    latency: int | None = None,
    error: str | None = None,
    failure: str | None = None,
    **detail: object,
) -> TrailRow:
    return TrailRow(
        seq=1,
        state=state,
        created_at=ORIGIN + timedelta(milliseconds=ms),
        worker_id=worker,
        fencing_token=token,
        http_status_code=status,
        latency_ms=latency,
        error_message=error,
        detail=detail if failure is None else {"class": failure, **detail},
    )


def test_the_first_seeds_timeline() -> None:
    url = "https://api.client.example/webhook"
    rows = [
        row(0, "RECEIVED", "gw-us-east-1a", node="gw-us-east-1a"),
        row(4, "ENCRYPTED", key_id="key-2026-8f2a", sealed_by="producer"),
        row(12, "LEASED", "wrk-402", 1, lease_seconds=30, waited_for="worker"),
        row(15, "ATTEMPTED", "wrk-402", 1, attempt=1, url=url),
        row(120, "FAILED", "wrk-402", 1, status=503, latency=105, failure="http_5xx"),
        row(122, "RETRIED", "wrk-402", 1, delay_ms=15_000),
        row(15_125, "LEASED", "wrk-109", 2, lease_seconds=30.0, waited_for="order"),
        row(15_128, "ATTEMPTED", "wrk-109", 2, attempt=2, url=url),
        row(15_210, "DELIVERED", "wrk-109", 2, status=200, latency=82),
    ]
    assert as_text(rows, ()) == [
        "[00:00.000] RECEIVED  - Payload taken in by node gw-us-east-1a",
        "[00:00.004] ENCRYPTED - Encrypted by its producer (key id: ...8f2a)",
        "[00:00.012] LEASED    - Worker wrk-402 claimed lease (30 s), token=1, waited for a worker",
        "[00:00.015] ATTEMPTED - POST https://api.client.example/webhook (attempt 1)",
        "[00:00.120] FAILED    - Endpoint returned HTTP 503 (latency 105 ms)",
        "[00:00.122] RETRIED   - Rescheduled for +15 s (backoff with jitter)",
        "[00:15.125] LEASED    - Worker wrk-109 claimed lease (30 s), token=2, waited for its turn",
        "[00:15.128] ATTEMPTED - POST https://api.client.example/webhook (attempt 2)",
        "[00:15.210] DELIVERED - HTTP 200 OK (latency 82 ms)",
    ]


def test_a_refused_write_stands_where_it_arrived() -> None:
    rows = [row(0, "RECEIVED", "n"), row(500, "DELIVERED", "b", 2, status=204, latency=3)]
    early = FencedWrite(UUID(int=1), "a", 1, "FAILED", ORIGIN + timedelta(seconds=0.2), None)
    after = FencedWrite(UUID(int=1), "c", 1, "heartbeat", ORIGIN + timedelta(seconds=9), None)
    assert [line[12:].split(" - ", 1)[0].strip() for line in as_text(rows, (after, early))] == [
        "RECEIVED",
        "FENCED_OUT",
        "DELIVERED",
        "FENCED_OUT",
    ]
    assert as_text(rows, (early,))[1] == (
        "[00:00.200] FENCED_OUT - Worker a was refused: it would have written FAILED, stale token=1"
    )
    assert "found its lease lost" in as_text(rows, (after,))[2]


def test_no_rows_are_no_story() -> None:
    assert as_text((), ()) == []


@pytest.mark.parametrize(
    ("given_row", "words"),
    [
        (
            row(0, "ENCRYPTED", key_id="k1", sealed_by="fan-out"),
            "Encrypted at fan-out (key id: k1)",
        ),
        (
            row(0, "FAILED", error="no answer within 15 s", latency=15_000, failure="timeout"),
            "timeout: no answer within 15 s (latency 15000 ms)",
        ),
        (row(0, "FAILED", failure="payload_erased"), "payload_erased"),
        (
            row(0, "DELIVERED", status=299, latency=7, error="cut short"),
            "HTTP 299 (latency 7 ms); its body: cut short",
        ),
        (row(0, "DLQ", reason="crash_loop"), "Dead-lettered: crash_loop"),
        (
            row(0, "LEASE_EXPIRED", "a", 4),
            "The lease of worker a ran out without an outcome, token=4",
        ),
        (
            row(0, "RELEASED", "a", 4, reason="draining"),
            "Given back unsent by worker a: the worker is stopping",
        ),
        (row(0, "RELEASED", "a", 4, reason="other"), "Given back unsent by worker a: other"),
        (row(0, "REPLAYED", operator="al", reason="mended"), "Sent again by al: mended"),
        (row(0, "REPLAYED", operator="al", replay_id="7"), "Sent again by al in replay 7"),
        (row(0, "DISCARDED", operator="al", reason="too old"), "Given up by al: too old"),
        (row(0, "RETRIED", delay_ms=0), "Rescheduled, due at once"),
        (
            row(0, "RETRIED", delay_ms=120_000, reason="retry_after"),
            "Rescheduled for +2 m (the endpoint asked to wait)",
        ),
        (
            row(0, "RETRIED", delay_ms=1_500, reason="local_error"),
            "Rescheduled for +1.5 s (a fault of our own, which uses no attempt)",
        ),
        (
            row(0, "FAILED", status=302, latency=5, error="302 Found to http://x/, not followed"),
            "Endpoint returned HTTP 302 Found to http://x/, not followed (latency 5 ms)",
        ),
    ],
)
def test_each_row_in_words(given_row: TrailRow, words: str) -> None:
    assert describe(given_row, before=row(0, "FAILED")) == words


def test_only_a_retry_after_a_failure_is_called_backoff() -> None:
    retried = row(0, "RETRIED", delay_ms=5_000)
    assert describe(retried, before=row(0, "RELEASED")) == "Rescheduled for +5 s"
    assert describe(retried) == "Rescheduled for +5 s"


@pytest.mark.parametrize("state", [*State, *Fact])
def test_every_state_has_words_even_without_detail(state: str) -> None:
    assert describe(row(0, state))


@given(text=st.text())
def test_nothing_in_a_row_breaks_its_line_or_drives_the_terminal(text: str) -> None:
    line = format_line(row(0, "FAILED", text, error=text, failure=text), ORIGIN)
    assert line.isprintable()


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (timedelta(milliseconds=12), "00:00.012"),
        (timedelta(minutes=59, seconds=59, milliseconds=999), "59:59.999"),
        (timedelta(hours=1), "0d 01:00:00.000"),
        (timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5), "1d 02:03:04.005"),
        (timedelta(milliseconds=-20), "-00:00.020"),
    ],
)
def test_offsets(offset: timedelta, words: str) -> None:
    assert format_offset(offset) == words


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (380, "380 ms"),
        (6_480, "6.48 s"),
        (15_000, "15 s"),
        (98_040, "1 m 38 s"),
        (14_520_000, "4 h 02 m"),
        (273_600_000, "3 d 04 h"),
    ],
)
def test_durations(ms: float, words: str) -> None:
    assert format_duration(ms) == words
