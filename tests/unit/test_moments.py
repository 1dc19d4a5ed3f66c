"""How moments are written for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from fencepost.moments import format_moment


def test_a_moment_is_written_in_utc_wherever_it_was_read() -> None:
    at = datetime(2026, 11, 30, 22, 38, 20, 123_999, tzinfo=timezone(timedelta(hours=5.75)))
    assert format_moment(at) == "2026-11-30 16:53:20.123Z"


def test_whole_seconds_keep_their_milliseconds_so_that_columns_align() -> None:
    assert format_moment(datetime(2026, 11, 30, tzinfo=UTC)) == "2026-11-30 00:00:00.000Z"
