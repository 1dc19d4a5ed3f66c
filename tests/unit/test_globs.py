from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import InvalidInputError
from fencepost.globs import check_globs, to_like


@pytest.mark.parametrize("glob", ["*", "invoice.paid", "invoice.*", "*.paid", "a_b.*c", "A9"])
def test_an_event_type_with_wildcards_is_a_glob(glob: str) -> None:
    assert check_globs([glob], field="event_types", most=10) == (glob,)


@pytest.mark.parametrize(
    "glob",
    [
        "",
        ".",
        "a..b",
        ".a",
        "a.",
        "a b",
        "(a+)+$",
        "%",
        "ä",
        "a\n",
        "a-b",
        "a" * 129,
        7,
        None,
        b"a",
    ],
)
def test_anything_else_is_refused_by_the_name_of_its_field(glob: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_globs([glob], field="event_types", most=10)
    assert caught.value.field == "event_types"


def test_too_many_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="at most 2"):
        check_globs(["a", "b", "c"], field="type", most=2)


def test_repetitions_are_dropped() -> None:
    assert check_globs(["a", "b", "a"], field="type", most=9) == ("a", "b")


@pytest.mark.parametrize(
    ("glob", "pattern"),
    [("*", "%"), ("a.*", "a.%"), ("a_b", r"a\_b"), ("**", "%"), ("*_*", r"%\_%")],
)
def test_a_glob_becomes_a_like_pattern(glob: str, pattern: str) -> None:
    assert to_like(glob) == pattern


@given(st.text("ab_.*", min_size=1, max_size=20))
def test_a_pattern_has_no_wildcard_that_its_glob_does_not_have(glob: str) -> None:
    pattern = to_like(glob)
    assert ("%" in pattern) == ("*" in glob)
    assert pattern.count("_") == pattern.count(r"\_") == glob.count("_")
