"""The NDJSON reader: payload bytes are sliced, never made again, and it agrees with ``json``."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.api.ndjson import (
    MAX_LINES,
    DuplicateKeyError,
    LineError,
    TooManyLinesError,
    read_entries,
    scan_object,
)

# Machines differ; what is proved does not.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

SPACE = st.text(alphabet=" \t\r", max_size=3)
NUMBERS = st.one_of(
    st.integers().map(str),
    st.sampled_from(["1.10", "-0", "-0.0", "1e400", "1E+2", "9007199254740993", "0.1e-9"]),
    st.integers(min_value=4301, max_value=5000).map(lambda digits: "7" * digits),
)


@st.composite
def string_sources(draw: Any) -> str:
    """Text of a JSON string, each character spelt raw or escaped, surrogates escaped."""
    spelt = []
    for character in draw(st.text(st.characters(codec="utf-8"), max_size=12)):
        spelling = json.dumps(character, ensure_ascii=draw(st.booleans()))[1:-1]
        spelt.append("\\/" if character == "/" and draw(st.booleans()) else spelling)
    if draw(st.booleans()):
        spelt.append(draw(st.sampled_from(["\\ud800", "\\u0000", "\\u00e9", "\\ud83d\\ude00"])))
    return '"' + "".join(spelt) + '"'


def containers(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Text of an array or object of these, white space and doubled keys included."""
    item = st.tuples(SPACE, children, SPACE).map("".join)
    member = st.tuples(SPACE, string_sources(), SPACE, st.just(":"), item).map("".join)
    return st.one_of(
        st.lists(item, max_size=4).map(lambda items: "[" + ",".join(items) + "]"),
        st.lists(member, max_size=4).map(lambda members: "{" + ",".join(members) + "}"),
    )


VALUES = st.recursive(
    st.one_of(st.sampled_from(["null", "true", "false"]), NUMBERS, string_sources()),
    containers,
    max_leaves=12,
)


@unhurried
@given(value=VALUES, spaces=st.tuples(SPACE, SPACE, SPACE, SPACE, SPACE), first=st.booleans())
def test_the_payload_is_the_source_of_its_value(
    *, value: str, spaces: tuple[str, ...], first: bool
) -> None:
    a, b, c, d, e = spaces
    after = ',"event_type":"a.b"' if first else ""
    before = "" if first else '"event_type":"a.b",'
    line = f'{a}{{{b}{before}"payload"{c}:{d}{value}{e}{after}}}{a}'
    (entry,) = read_entries(line.encode())
    assert entry.payload == value.encode()


@unhurried
@given(text=st.one_of(VALUES, st.text(alphabet='{}[]":,\\ua1.e-+ tNnul\ud800', max_size=24)))
def test_the_scanner_accepts_what_json_accepts_and_nothing_else(text: str) -> None:
    def pairs(items: list[tuple[str, Any]]) -> Any:
        return Pairs(items)

    class Pairs(list[tuple[str, Any]]):
        """A parsed object, its doubled keys still there."""

    try:
        expected = json.loads(
            text,
            object_pairs_hook=pairs,
            parse_constant=lambda _: pytest.fail("a constant"),
            parse_int=lambda _: 0,
            parse_float=lambda _: 0.0,
        )
    except json.JSONDecodeError:
        expected = None
    except pytest.fail.Exception:
        expected = None
    is_object = isinstance(expected, Pairs)
    keys = [key for key, _ in expected] if is_object else []
    try:
        found = scan_object(text)
    except json.JSONDecodeError:
        assert not is_object
    except DuplicateKeyError:
        assert len(set(keys)) < len(keys)
    else:
        assert list(found) == keys
        for member in found.values():
            json.loads(text[member.start : member.end], parse_int=lambda _: 0)


def test_lines_may_end_in_any_of_the_usual_ways() -> None:
    body = (
        b'{"event_type":"a","payload":1}\r\n'
        b"\n"
        b'  {"event_type":"b","payload":[ ] , "idempotency_key":"k-1"}\t\n'
        b'{"event_type":"c","payload":{"x": "\xc3\xa9"},"idempotency_key":null}'
    )
    found = [(e.line, e.event_type, e.payload, e.idempotency_key) for e in read_entries(body)]
    assert found == [
        (1, "a", b"1", None),
        (3, "b", b"[ ]", "k-1"),
        (4, "c", b'{"x": "\xc3\xa9"}', None),
    ]


def test_a_name_may_be_spelt_with_escapes() -> None:
    (entry,) = read_entries(rb'{"event_typ\u0065":"a","pay\u006coad":{"payload":2}}')
    assert (entry.event_type, entry.payload) == ("a", b'{"payload":2}')


def test_base64_carries_any_bytes() -> None:
    raw = bytes(range(256))
    line = {
        "event_type": "blob.made",
        "payload_base64": base64.b64encode(raw).decode(),
        "content_type": "application/octet-stream",
    }
    (entry,) = read_entries(json.dumps(line).encode())
    assert (entry.payload, entry.content_type) == (raw, "application/octet-stream")


@pytest.mark.parametrize(
    ("line", "name", "says"),
    [
        ('{"event_type":"a"}', "payload", "either"),
        ('{"event_type":"a","payload":1,"payload_base64":"MQ=="}', "payload", "either"),
        ('{"payload":1}', "event_type", "missing"),
        ('{"event_type":1,"payload":1}', "event_type", "a string"),
        ('{"event_type":"a","payload":1,"content_type":null}', "content_type", "a string"),
        ('{"event_type":"a","payload":1,"idempotency_key":7}', "idempotency_key", "a string"),
        ('{"event_type":"a","payload":1,"id":"x"}', "id", "no such field"),
        ('{"event_type":"a","payload":1,"payload":2}', "payload", "twice"),
        ('{"event_type":"a","payload":1,"event\\u005ftype":"b"}', "event_type", "twice"),
        ('{"event_type":"a","payload_base64":"MQ"}', "payload_base64", "base64"),
        ('{"event_type":"a","payload_base64":"M Q=="}', "payload_base64", "base64"),
        ('{"event_type":"a","payload_base64":"_-8="}', "payload_base64", "base64"),
        ('{"event_type":"a","payload_base64":"é"}', "payload_base64", "base64"),
        ('{"event_type":"a","payload_base64":["MQ=="]}', "payload_base64", "a string"),
    ],
)
def test_a_bad_field_is_named_with_its_line(line: str, name: str, says: str) -> None:
    with pytest.raises(LineError, match=says) as caught:
        read_entries(b'{"event_type":"a","payload":1}\n' + line.encode())
    assert (caught.value.line, caught.value.field, caught.value.parses) == (2, name, True)
    assert str(caught.value).startswith("Line 2: ")


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b"{} {}",
        b"{}x",
        b'{"event_type":"a","payload":1,}',
        b"{'event_type':'a','payload':1}",
        b'{event_type:"a"}',
        b'{"event_type":"a","payload":NaN}',
        b'{"event_type":"a","payload":[-Infinity]}',
        b'{"event_type":"a","payload":01}',
        b'{"event_type":"a","payload":}',
        b'{"event_type":"a" "payload":1}',
        b'{"event_type":"a","payload":"\x01"}',
        b'\xef\xbb\xbf{"event_type":"a","payload":1}',
        b'{"event_type":"a","payload":"\xc0\x80"}',
        b'{"event_type":"a","payload":"\xff"}',
        b'{"event_type":"a","payload":\xc2\xa01}',
        '{"event_type":"a","payload":1}'.encode("utf-16"),
        b'{"event_type":"a","payload":' + b"[" * 100_000,
    ],
)
def test_a_line_that_is_no_json_object_is_said_not_to_parse(line: bytes) -> None:
    with pytest.raises(LineError) as caught:
        read_entries(b'{"event_type":"a","payload":1}\n' + line)
    assert (caught.value.line, caught.value.parses) == (2, False)


def test_a_thousand_lines_are_read_and_one_more_is_refused() -> None:
    line = b'{"event_type":"a","payload":1}\n'
    assert len(read_entries(line * MAX_LINES + b"\r\n\n")) == MAX_LINES
    with pytest.raises(TooManyLinesError, match="1000"):
        read_entries(line * (MAX_LINES + 1))


def test_nothing_is_nothing() -> None:
    assert read_entries(b"") == []
    assert read_entries(b"\n \r\n\t") == []
