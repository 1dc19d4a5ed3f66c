"""Payloads are judged as RFC 8259 says and never rewritten."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost import payloads
from fencepost.errors import InvalidInputError, KeyUnavailableError
from fencepost.keyring import Keyring
from fencepost.payloads import InvalidJsonError, PayloadTooLargeError

LIMIT = 262_144


def check(payload: bytes, content_type: str = "application/json") -> None:
    payloads.check_payload(payload, content_type, max_bytes=LIMIT)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"b":1,  "a":1.10}\n',
        '{"a":"é"}'.encode(),
        b'{"a":"\\u00e9"}',
        b'"\\/"',
        b"9007199254740993",
        b"1" * 5000,
        b"-0.0e-5",
        b"1e400",
        b'{"a":1,"a":2}',
        b'"\\ud800"',
        b'"\\u0000"',
        b"null",
        b"[]",
        b' \t\r\n{"": [{}, "]", "\\"["]} ',
        b"[" * 64 + b"]" * 64,
        b'{"a":' * 64 + b"1" + b"}" * 64,
        b"[" + b"[],{}," * 1000 + b"0]",
        b'"' + b"[" * 1000 + b'"',
    ],
)
def test_json_passes(payload: bytes) -> None:
    check(payload)
    check(payload, 'Application/JSON ; charset="UTF-8"')


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[1,]", "not JSON"),
        (b"{} {}", "not JSON"),
        (b"{'a':1}", "not JSON"),
        (b'"a\nb"', "not JSON"),
        (b'"a\x00b"', "not JSON"),
        (b"01", "not JSON"),
        (b"1.", "not JSON"),
        (b"+1", "not JSON"),
        (b'"\\x41"', "not JSON"),
        (b'"\\u12"', "not JSON"),
        ("٣".encode(), "not JSON"),
        (b"\xc2\xa0{}", "not JSON"),
        (b'"abc', "not JSON"),
        (b'"abc\\', "not JSON"),
        (b'{"a":NaN}', "NaN"),
        (b"[Infinity]", "NaN"),
        (b"-Infinity", "NaN"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'"\xff"', "UTF-8"),
        (b'"\xc0\x80"', "UTF-8"),
        (b'"\xed\xa0\x80"', "UTF-8"),
        ("{}".encode("utf-16-le"), "not JSON"),
        ("{}".encode("utf-16"), "UTF-8"),
        (b"[" * 65 + b"]" * 65, "64 deep"),
        (b"[" * 100_000, "64 deep"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "64 deep"),
        (b'["\\\\",' + b"[" * 64 + b"]" * 65, "64 deep"),
    ],
)
def test_what_is_no_json_is_refused(payload: bytes, reason: str) -> None:
    with pytest.raises(InvalidJsonError, match=reason) as caught:
        check(payload)
    assert caught.value.field == "payload"
    check(payload, "application/octet-stream")


@pytest.mark.parametrize(
    "payload", [b'\\"' * 130_000, b'"' * 262_144, b'"\\' * 131_072, b"[]" * 131_072, b"{" * 262_144]
)
def test_hostile_payloads_are_judged_in_no_time(payload: bytes) -> None:
    began = perf_counter()
    with pytest.raises(InvalidJsonError):
        check(payload)
    assert perf_counter() - began < 5  # scanning again and again would take minutes


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_is_encoded_passes_and_means_the_same(value: object) -> None:
    encoded = payloads.encode(value, "application/json")
    check(encoded)
    assert json.loads(encoded) == value


@given(st.binary(max_size=200))
def test_whatever_passes_parses(payload: bytes) -> None:
    try:
        check(payload)
    except InvalidJsonError:
        return
    json.loads(payload.decode("utf-8"))


def test_opaque_payloads_may_be_anything() -> None:
    for content_type in ("text/plain", "application/vnd.api+json", "application/octet-stream"):
        check(bytes(range(256)), content_type)
        check(b"", content_type)


def test_the_limit_is_exact() -> None:
    payloads.check_payload(b"x" * 10, "text/plain", max_bytes=10)
    with pytest.raises(PayloadTooLargeError, match="11 bytes, the limit is 10"):
        payloads.check_payload(b"x" * 11, "text/plain", max_bytes=10)


def test_values_become_compact_utf8() -> None:
    assert payloads.encode({"b": 1, "a": "é/"}, "application/json") == '{"b":1,"a":"é/"}'.encode()
    assert payloads.encode("text", "application/json") == b'"text"'
    assert payloads.encode(None, "application/json") == b"null"


def test_half_a_surrogate_pair_stays_an_escape() -> None:
    value = json.loads('{"\\ud800": "\\udfff"}')
    assert payloads.encode(value, "application/json") == b'{"\\ud800":"\\udfff"}'


def test_bytes_stay_as_they_are() -> None:
    for payload in (b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")):
        assert payloads.encode(payload, "application/octet-stream") == b"\x00\xff"


def test_what_cannot_be_written_is_refused_without_quoting_it() -> None:
    endless: list[object] = ["secret"]
    endless.append(endless)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (float("nan"), float("-inf"), {"secret"}, datetime.now(UTC), endless, deep):
        with pytest.raises(InvalidInputError) as caught:
            payloads.encode(value, "application/json")
        assert caught.value.field == "payload"
        assert "secret" not in str(caught.value)
    with pytest.raises(InvalidInputError, match="must be bytes"):
        payloads.encode("text", "text/plain")


@pytest.mark.parametrize(
    "event_type", ["a", "invoice.paid", "A_1.b.C", "_", "x" * 128, "fencepost"]
)
def test_event_types_pass(event_type: str) -> None:
    payloads.check_event_type(event_type)


@pytest.mark.parametrize(
    "event_type",
    [
        "",
        ".",
        "a..b",
        ".a",
        "a.",
        "a b",
        "ä",
        "a\n",
        "a-b",
        "a/b",
        "x" * 129,
        "fencepost.test",
        "٣",
    ],
)
def test_other_event_types_are_refused(event_type: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        payloads.check_event_type(event_type)
    assert caught.value.field == "event_type"


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "text/plain;charset=iso-8859-1",
        'multipart/mixed; boundary="a b;c"',
        "application/vnd.api+json",
    ],
)
def test_content_types_pass(content_type: str) -> None:
    payloads.check_content_type(content_type)


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "json",
        "a/",
        "/b",
        "a/b/c",
        "text/plain\r\nX-Evil: 1",
        "text/plain;",
        "text/plain; a=\x7f",
        'text/plain; a="\\"',
        'text/plain; a="é"',
        "text/plain; a=" + "x" * 250,
        "application/json; charset=utf-16",
        'application/json; charset="latin-1"',
    ],
)
def test_other_content_types_are_refused(content_type: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        payloads.check_content_type(content_type)
    assert caught.value.field == "content_type"


def test_idempotency_keys_are_visible_ascii() -> None:
    for key in ("a", "~" * 255, "order-1/2:3"):
        payloads.check_idempotency_key(key)
    for key in ("", "x" * 256, "a b", "a\n", "é", "\x00", "\x7f"):
        with pytest.raises(InvalidInputError) as caught:
            payloads.check_idempotency_key(key)
        assert caught.value.field == "idempotency_key"


def test_a_fingerprint_tells_events_apart() -> None:
    text = Keyring.generate()
    keyring = Keyring.parse(text)
    event = {"event_type": "a.b", "content_type": "text/plain", "payload": b"c"}
    mac = payloads.fingerprint(keyring, event_type="a.b", content_type="text/plain", payload=b"c")
    assert _matches(keyring, mac, **event)
    assert not _matches(keyring, mac, **{**event, "event_type": "a.c"})
    assert not _matches(keyring, mac, **{**event, "content_type": "text/html"})
    assert not _matches(keyring, mac, **{**event, "payload": b"d"})
    with pytest.raises(KeyUnavailableError):
        _matches(Keyring.parse(Keyring.generate()), mac, **event)


def _matches(keyring: Keyring, mac: bytes, **event: object) -> bool:
    return payloads.matches_fingerprint(
        keyring,
        mac,
        event_type=str(event["event_type"]),
        content_type=str(event["content_type"]),
        payload=event["payload"],  # type: ignore[arg-type]
    )
