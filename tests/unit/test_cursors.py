from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.cursors import Cursors, Position
from fencepost.errors import InvalidInputError

CURSORS = Cursors(b"a secret of tests")

positions = st.builds(
    Position,
    st.uuids() | st.integers(0, 2**63 - 1),
    st.none() | st.datetimes(timezones=st.just(UTC)),
)


@given(positions, st.text(max_size=30))
def test_a_position_comes_back_as_it_was_written(position: Position, scope: str) -> None:
    text = CURSORS.write(position, scope=scope)
    assert CURSORS.read(text, scope=scope, field="after") == position


def test_no_position_is_no_text() -> None:
    assert CURSORS.write(None, scope="s") is None
    assert CURSORS.read(None, scope="s", field="after") is None


@given(positions, st.integers(0, 1000), st.integers(1, 255))
def test_an_altered_cursor_is_refused(position: Position, place: int, change: int) -> None:
    text = CURSORS.write(position, scope="s")
    assert text is not None
    place %= len(text)
    altered = text[:place] + chr(ord(text[place]) ^ change) + text[place + 1 :]
    with pytest.raises(InvalidInputError) as caught:
        CURSORS.read(altered, scope="s", field="before")
    assert caught.value.field == "before"


def test_a_cursor_of_another_filter_or_installation_is_refused() -> None:
    text = CURSORS.write(Position(uuid4()), scope="one")
    with pytest.raises(InvalidInputError):
        CURSORS.read(text, scope="other", field="after")
    with pytest.raises(InvalidInputError):
        Cursors(b"another secret").read(text, scope="one", field="after")


@pytest.mark.parametrize(
    "text", ["", "x", "é" * 10, "A" * 5000, "=", "a b", "\0", "AAAA====", "-_"]
)
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        CURSORS.read(text, scope="s", field="after")


def test_a_position_keeps_its_microseconds_in_any_zone() -> None:
    at = datetime(2026, 11, 30, 18, 55, 1, 123457, tzinfo=timezone(timedelta(hours=2)))
    text = CURSORS.write(Position(UUID(int=1), at), scope="s")
    found = CURSORS.read(text, scope="s", field="after")
    assert found == Position(UUID(int=1), at.astimezone(UTC))
