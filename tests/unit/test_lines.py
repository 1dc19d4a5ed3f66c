from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import InvalidInputError
from fencepost.lines import check_line


def test_white_space_of_any_kind_becomes_one_space() -> None:
    assert check_line(" a\n\tb\u2028c\u00a0 d ", field="name", longest=20) == "a b c d"


def test_letters_of_all_languages_and_emoji_stay() -> None:
    text = "Ünïcode 日本 👩\u200d👩\u200d👧"
    assert check_line(text, field="name", longest=40) == text


@pytest.mark.parametrize(
    "value",
    [None, 7, b"a", "", " \n", "x" * 21, "a\0b", "a\x1b[31m", "\x7f", "\ud800", "safe\u202etxt"],
)
def test_anything_else_is_refused_by_the_name_of_its_field(value: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_line(value, field="reason", longest=20)
    assert caught.value.field == "reason"


@given(st.text(max_size=30))
def test_what_is_accepted_is_one_line_and_stays_as_it_is(text: str) -> None:
    try:
        line = check_line(text, field="name", longest=20)
    except InvalidInputError:
        return
    assert line.splitlines() == [line]
    assert line.encode()
    assert check_line(line, field="name", longest=20) == line
