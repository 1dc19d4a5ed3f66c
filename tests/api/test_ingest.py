"""The producers' door over HTTP: bytes in, the same bytes sealed in the database."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from api_client import Api
from fencepost.settings import Settings
from fencepost.store.events import read_payload

PAYLOADS = [
    b'{"b":1,  "a":1.10}\n',
    '{"e": "\\u00e9 é", "s": "\\/", "n": 9007199254740993}'.encode(),
    b'{"a":1,"a":2}',
    b"[]",
    b"null",
    b'"\\ud800\\u0000"',
    b"1e400",
    b" " + b"7" * 5000,
]


def stored(owner: Connection[Any], settings: Settings, event_id: str) -> tuple[bytes, Any]:
    """Give the payload that an event was stored with, and its row."""
    row = owner.execute(
        "SELECT event_type, content_type, payload_bytes, idempotency_key, sealed_by, node"
        " FROM webhook_events WHERE id = %s",
        (event_id,),
    ).fetchone()
    return read_payload(owner, settings.keyring(), UUID(event_id)), row


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda value: str(value)[:30])
def test_the_payload_is_stored_byte_for_byte(
    api: Api, owner: Connection[Any], api_settings: Settings, payload: bytes
) -> None:
    answer = api.publish("invoice.paid", payload)
    assert answer["duplicate"] is False
    found, row = stored(owner, api_settings, answer["id"])
    assert found == payload
    assert row[:5] == ("invoice.paid", "application/json", len(payload), None, "producer")


def test_nothing_of_a_payload_is_in_the_database_in_clear(api: Api, owner: Connection[Any]) -> None:
    answer = api.publish("invoice.paid", b'"a marker of its own"')
    found = owner.execute(
        "SELECT p.sealed, o.payload FROM webhook_payloads p JOIN webhook_outbox o USING (event_id)"
        " WHERE event_id = %s",
        (answer["id"],),
    ).fetchall()
    assert len(found) == 1
    assert b"marker" not in found[0][0]
    assert found[0][1] is None


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=utf-8",
        "text/plain",
        "application/octet-stream",
        'text/plain; charset="iso-8859-1"',
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/cloudevents+json",
    ],
)
def test_the_content_type_is_kept_as_it_was_sent(
    api: Api, owner: Connection[Any], api_settings: Settings, content_type: str
) -> None:
    body = b'{"a":1}' if content_type.startswith("application/json") else bytes(range(256))
    answer = api.publish("blob.made", body, content_type=content_type)
    found, row = stored(owner, api_settings, answer["id"])
    assert (found, row[1]) == (body, content_type)


def test_without_a_content_type_it_is_json(api: Api, owner: Connection[Any]) -> None:
    api.publish("untyped", b"{}", content_type=None)
    found = owner.execute(
        "SELECT content_type FROM webhook_events WHERE event_type = 'untyped'"
    ).fetchall()
    assert found == [("application/json",)]
    problem = api.publish("a", b"\xff\x00", content_type=None, status=400)
    assert problem["code"] == "invalid_json"


def test_an_event_can_be_read_from_the_moment_of_its_202(
    api: Api, fan_out: Callable[[], int]
) -> None:
    fan_out()
    api.subscribe(event_types=["read.*"])
    event_id = api.publish("read.back", b"{}")["id"]
    event = api.get(f"/events/{event_id}", role="viewer")
    assert (event["id"], event["event_type"]) == (event_id, "read.back")
    assert event["deliveries"] is None
    assert event["published_at"].endswith("Z")
    assert fan_out() == 1
    (delivery,) = api.get(f"/events/{event_id}", role="viewer")["deliveries"]
    assert (delivery["event_id"], delivery["state"]) == (event_id, "ENCRYPTED")


def test_an_event_that_nobody_wants_has_an_empty_list(api: Api, fan_out: Callable[[], int]) -> None:
    event_id = api.publish("wanted.by.nobody", b"{}")["id"]
    fan_out()
    assert api.get(f"/events/{event_id}")["deliveries"] == []


def test_a_key_makes_posting_again_safe(api: Api, count_events: Callable[[], int]) -> None:
    before = count_events()
    key = {"Idempotency-Key": 'order-1,"~!'}
    first = api.publish("invoice.paid", b'{"a":1}', headers=key)
    again = api.publish("invoice.paid", b'{"a":1}', headers=key)
    assert again == {"id": first["id"], "duplicate": True}
    for event_type, body, content_type in [
        ("invoice.paid", b'{"a":2}', "application/json"),
        ("invoice.void", b'{"a":1}', "application/json"),
        ("invoice.paid", b'{"a":1}', "text/plain"),
    ]:
        problem = api.publish(event_type, body, headers=key, content_type=content_type, status=409)
        assert problem["code"] == "idempotency_key_reused"
    assert count_events() == before + 1


def line(event_type: str = "a.b", payload: str = "{}", **more: Any) -> str:
    """Write a line with the payload's source as it is."""
    rest = "".join(f",{json.dumps(name)}:{json.dumps(value)}" for name, value in more.items())
    return f'{{"event_type":{json.dumps(event_type)},"payload":{payload}{rest}}}'


def batch(api: Api, *lines: str, status: int = 202, **options: Any) -> Any:
    options = {"content_type": "application/x-ndjson", **options}
    return api.post("/events", data="\n".join(lines).encode(), status=status, **options)


def test_a_batch_keeps_every_payload_byte_for_byte(
    api: Api, owner: Connection[Any], api_settings: Settings
) -> None:
    sliced = [payload for payload in PAYLOADS if payload == payload.strip()]
    binary = bytes(range(256))
    answer = batch(
        api,
        *(line(payload=payload.decode()) for payload in sliced),
        json.dumps(
            {
                "event_type": "blob.made",
                "payload_base64": base64.b64encode(binary).decode(),
                "content_type": "application/octet-stream",
            }
        ),
        json.dumps({"event_type": "a", "payload_base64": base64.b64encode(PAYLOADS[0]).decode()}),
    )
    found = [stored(owner, api_settings, event["id"])[0] for event in answer["events"]]
    assert found == [*sliced, binary, PAYLOADS[0]]
    assert not any(event["duplicate"] for event in answer["events"])


def test_a_batch_is_taken_in_whole_or_not_at_all(api: Api, count_events: Callable[[], int]) -> None:
    before = count_events()
    problem = batch(api, line(), line(event_type="not a type"), line(), status=422)
    assert (problem["line"], problem["field"]) == (2, "event_type")
    assert problem["detail"].startswith("Line 2: ")
    assert count_events() == before


@pytest.mark.parametrize(
    ("bad", "status", "field"),
    [
        ("{", 400, None),
        (line(event_type="fencepost.test"), 422, "event_type"),
        (line(payload="[" * 65 + "]" * 65), 400, "payload"),
        (line(payload='"' + "x" * 300_000 + '"'), 413, "payload"),
        (line(idempotency_key="no spaces"), 422, "idempotency_key"),
        (line(content_type="nothing"), 422, "content_type"),
        (line(content_type="application/json; charset=utf-16"), 422, "content_type"),
        ('{"event_type":"a","payload_base64":"/w=="}', 400, "payload"),
        ('{"event_type":"a","payload_base64":""}', 400, "payload"),
        (line(colour="red"), 422, "colour"),
    ],
)
def test_a_bad_line_is_named(
    api: Api, count_events: Callable[[], int], bad: str, status: int, field: str | None
) -> None:
    before = count_events()
    problem = batch(api, line(), "", bad, status=status)
    assert (problem["line"], problem.get("field")) == (3, field)
    assert count_events() == before


def test_keys_work_in_batches_too(api: Api, count_events: Callable[[], int]) -> None:
    before = count_events()
    first = batch(api, line(idempotency_key="k1"), line(), line(idempotency_key="k1"))["events"]
    assert [event["duplicate"] for event in first] == [False, False, True]
    assert first[2]["id"] == first[0]["id"]
    again = batch(api, line(idempotency_key="k1"), line(idempotency_key="k2"))["events"]
    assert again[0] == {"id": first[0]["id"], "duplicate": True}
    problem = batch(
        api, line(idempotency_key="k3"), line(payload="1", idempotency_key="k1"), status=409
    )
    assert (problem["code"], problem["line"]) == ("idempotency_key_reused", 2)
    assert problem["detail"].startswith("Line 2: this idempotency key")
    assert count_events() == before + 3


def test_a_thousand_lines_are_one_transaction_and_one_more_is_too_large(
    api: Api, owner: Connection[Any]
) -> None:
    many = line(event_type="one.of.many")
    assert len(batch(api, *[many] * 1000)["events"]) == 1000
    found = owner.execute(
        "SELECT count(*), count(DISTINCT xmin::text) FROM webhook_events"
        " WHERE event_type = 'one.of.many'"
    ).fetchone()
    assert found == (1000, 1)
    assert batch(api, *[many] * 1001, status=413)["code"] == "too_large"


def test_what_is_no_batch_is_refused(api: Api) -> None:
    assert batch(api, "", status=400)["code"] == "empty_body"
    problem = batch(api, line(), content_type="application/json", status=415)
    assert problem["field"] == "Content-Type"
    problem = batch(api, line(), headers={"Idempotency-Key": "k"}, status=422)
    assert problem["field"] == "Idempotency-Key"
    problem = batch(api, line(), headers={"Content-Encoding": "gzip"}, status=415)
    assert problem["field"] == "Content-Encoding"
