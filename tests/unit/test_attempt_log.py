"""The lines of attempts: one each, however many are written together."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from unittest import mock
from uuid import uuid4

import pytest

from fencepost.model import ErrorClass, Lease
from fencepost.states import Cause, State
from fencepost.store.leases import Attempted, Claimed
from fencepost.store.settlements import Settlement
from worker.attempt_log import AttemptLog, LineFormatter
from worker.judge import InFlight
from worker.prepare import Prepared


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the log of a worker has by now."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter())
    log = logging.getLogger("worker.attempt_log")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield stream
    log.removeHandler(handler)
    log.setLevel(logging.NOTSET)


def ended(token: int, cause: Cause, error: ErrorClass | None = None) -> tuple[InFlight, Settlement]:
    lease = Lease(uuid4(), "w", token)
    claimed = Claimed(lease, uuid4(), "invoice.paid", uuid4(), 0, 0, 5, None, is_suspect=False)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    flight = InFlight(
        Prepared(claimed, mock.sentinel.endpoint, "application/json", b"secret"),
        Attempted(lease.delivery_id, 1, now, now, is_repeat=False),
    )
    status = None if error else 204
    return flight, Settlement(lease, State.ATTEMPTED, cause, status=status, error=error)


def test_each_attempt_is_a_line_with_its_own_time_and_level(written: io.StringIO) -> None:
    log = AttemptLog()
    log.note(*ended(7, Cause.SUCCEED))
    log.note(*ended(8, Cause.RETRY, ErrorClass.TIMEOUT))
    log.write()
    first, second = written.getvalue().splitlines()
    for line in (first, second):
        day, _, level, event = line.split()[:4]
        assert datetime.fromisoformat(day)
        assert (level, event) == ("INFO", "delivery.attempted")
    assert " token=7 cause=SUCCEED status=204 error=None " in first
    assert " token=8 cause=RETRY status=None error=timeout " in second


def test_nothing_is_written_before_it_is_asked_for_nor_twice(written: io.StringIO) -> None:
    log = AttemptLog()
    log.note(*ended(1, Cause.SUCCEED))
    assert not written.getvalue()
    log.write()
    once = written.getvalue()
    log.write()
    assert written.getvalue() == once
    assert "secret" not in once


def test_other_records_are_formatted_as_they_come(written: io.StringIO) -> None:
    logging.getLogger("worker.attempt_log").warning("worker.odd reason=%s", "none")
    assert written.getvalue().endswith(" WARNING worker.odd reason=none\n")
