from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import InvalidInputError
from fencepost.filters import MOST_VALUES, NAMES, DeliveryFilter
from fencepost.model import ErrorClass
from fencepost.states import State

SUB = "0198c9e4-3c5e-7b3a-9d2f-0a1b2c3d4e5f"
OTHER = "0198c9e4-3c5e-7b3a-9d2f-0a1b2c3d4e60"
NOW = datetime(2026, 11, 30, 17, tzinfo=UTC)


def read(**params: str | list[str]) -> DeliveryFilter:
    lists = {name.rstrip("_"): [v] if isinstance(v, str) else v for name, v in params.items()}
    return DeliveryFilter.from_params(lists)


def test_no_parameter_means_everything() -> None:
    assert read() == DeliveryFilter()
    assert read().to_params() == {}
    assert read().in_words() == "everything"


def test_every_parameter_is_read_and_written_back() -> None:
    params = {
        "id": [SUB],
        "sub": [SUB, OTHER],
        "state": ["delivered", "dlq"],
        "phase": ["sleeping"],
        "type": ["crm.*", "invoice.paid"],
        "from": ["2026-11-30T16:55:01.123456Z"],
        "to": ["-15m"],
        "code": ["none", "400-404", "503", "5xx"],
        "err": ["dns", "timeout"],
        "min_attempts": ["1"],
        "max_attempts": ["5"],
        "q": ["ord_88213"],
        "replay": [OTHER],
        "worker": ["worker-a1"],
        "fenced": ["1"],
        "discarded": ["0"],
    }
    found = DeliveryFilter.from_params(params)
    assert set(params) == set(NAMES)
    assert found.sub == (UUID(SUB), UUID(OTHER))
    assert found.err == (ErrorClass.DNS, ErrorClass.TIMEOUT)
    assert found.until == timedelta(minutes=15)
    written = found.to_params()
    assert list(written) == list(NAMES)
    assert {name: sorted(values) for name, values in written.items()} == {
        name: sorted(values) for name, values in params.items()
    }
    assert DeliveryFilter.from_json(found.to_json()) == found


def test_the_same_values_in_another_order_are_the_same_filter() -> None:
    one = read(state=["dlq", "retried"], sub=[OTHER, SUB])
    other = read(sub=[SUB, OTHER, SUB], state=["retried", "dlq"])
    assert one == other
    assert one.fingerprint() == other.fingerprint()
    assert one.fingerprint() != read(state="dlq").fingerprint()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sub", "abc"),
        ("sub", "{" + SUB + "}"),
        ("sub", SUB.replace("-", "")),
        ("sub", ""),
        ("id", "urn:uuid:" + SUB),
        ("state", "XXX"),
        ("state", "DLQ"),
        ("state", "failed"),
        ("phase", "dreaming"),
        ("type", "a b"),
        ("type", "(a+)+$"),
        ("from", "9999-99-99"),
        ("from", "2026-02-30"),
        ("from", "1969-12-31T23:59:59Z"),
        ("from", "9999-12-31T23:59:59-23:59"),
        ("from", "-15"),
        ("from", "-999999d"),
        ("from", "1764521701000"),
        ("to", "yesterday"),
        ("code", "99"),
        ("code", "1000"),
        ("code", "xx"),
        ("code", "500-400"),
        ("err", "http_6xx"),
        ("min_attempts", "-1"),
        ("min_attempts", "1.5"),
        ("min_attempts", "٣"),
        ("max_attempts", "99999999999"),
        ("q", "   "),
        ("q", "a\0b"),
        ("q", "x" * 201),
        ("q", "\ud800"),
        ("worker", "a\x1b"),
        ("replay", "all"),
        ("discarded", "yes"),
        ("page", "-1"),
        ("state[]", "dlq"),
        ("sort", "id;drop table"),
    ],
)
def test_a_bad_value_or_name_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        DeliveryFilter.from_params({name: [value]})
    assert caught.value.field == name
    assert value == "" or len(value) < 4 or value not in str(caught.value)


@pytest.mark.parametrize("name", ["from", "to", "q", "replay", "worker", "min_attempts"])
def test_a_single_parameter_is_given_once(name: str) -> None:
    with pytest.raises(InvalidInputError, match="too often"):
        DeliveryFilter.from_params({name: ["1", "2"]})


def test_a_repeatable_one_has_a_limit_too() -> None:
    with pytest.raises(InvalidInputError, match="too often"):
        read(code=["503"] * (MOST_VALUES + 1))


def test_a_page_passes_over_what_it_does_not_know_and_what_is_empty() -> None:
    found = DeliveryFilter.from_params(
        {"tab": ["x"], "sub": [""], "state": ["", "dlq"], "q": [""]}, known_only=True
    )
    assert found == DeliveryFilter(state=(State.DLQ,))


def test_an_api_refuses_an_empty_scope_lest_it_mean_everything() -> None:
    with pytest.raises(InvalidInputError):
        read(sub="")


def test_names_of_the_list_itself_are_passed_over_when_told() -> None:
    params = {"limit": ["50"], "after": ["x"], "state": ["dlq"]}
    also = ("limit", "after", "before")
    assert DeliveryFilter.from_params(params, also=also) == DeliveryFilter(state=(State.DLQ,))


@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("2026-11-30T17:00:00Z", "2026-11-30T16:00:00Z"),
        ("-1h", "-2h"),
        ("2026-11-30T18:00:00+02:00", "2026-11-30T15:59:59Z"),
    ],
)
def test_a_range_that_ends_before_it_begins_is_refused(since: str, until: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read(from_=since, to=until)
    assert caught.value.field == "from"


def test_more_attempts_at_least_than_at_most_are_refused() -> None:
    with pytest.raises(InvalidInputError):
        read(min_attempts="3", max_attempts="2")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-30T17:00:00Z", NOW),
        ("2026-11-30T19:00:00+02:00", NOW),
        ("2026-11-30T17:00", NOW),
        ("2026-11-30", NOW.replace(hour=0)),
    ],
)
def test_a_moment_without_an_offset_is_utc(text: str, moment: datetime) -> None:
    assert read(from_=text).since == moment


def test_relative_bounds_are_pinned_to_a_clock() -> None:
    found = read(from_="-24h", to="-90s")
    assert found.is_relative
    pinned = found.pinned(NOW)
    assert (pinned.since, pinned.until) == (
        NOW - timedelta(days=1),
        NOW - timedelta(seconds=90),
    )
    assert not pinned.is_relative
    assert found.to_params() == {"from": ["-1d"], "to": ["-90s"]}


def test_dead_letters_alone_are_listed_by_entry() -> None:
    assert read(state="dlq").is_by_entry
    assert not read(state=["dlq", "retried"]).is_by_entry
    assert not read().is_by_entry


def test_a_bulk_action_without_states_means_the_dlq() -> None:
    assert read(sub=SUB).of_dead_letters().state == (State.DLQ,)
    assert read(state="delivered").of_dead_letters().state == (State.DELIVERED,)


@pytest.mark.parametrize(
    "data",
    [None, [], "state=dlq", 7],
)
def test_a_filter_in_json_is_an_object(data: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        DeliveryFilter.from_json(data)
    assert caught.value.field == "filter"


@pytest.mark.parametrize(
    ("name", "value"),
    [("state", None), ("state", []), ("state", {"a": 1}), ("sub", [None]), ("discarded", True)],
)
def test_its_values_are_strings_or_lists_of_them(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        DeliveryFilter.from_json({name: value})
    assert caught.value.field == name


def test_in_json_a_value_may_stand_alone_and_a_number_be_one() -> None:
    found = DeliveryFilter.from_json({"state": "dlq", "code": [503], "min_attempts": 2})
    assert found == read(state="dlq", code="503", min_attempts="2")


def test_a_filter_says_itself_in_words() -> None:
    assert read(state="dlq", err=["dns", "tls"]).in_words() == "state dlq, err dns or tls"


@given(
    st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), st.lists(st.text(), max_size=3))
)
def test_no_query_string_is_a_defect(params: dict[str, list[str]]) -> None:
    for known_only in (True, False):
        try:
            found = DeliveryFilter.from_params(params, known_only=known_only)
        except InvalidInputError:
            continue
        assert DeliveryFilter.from_params(found.to_params()) == found
