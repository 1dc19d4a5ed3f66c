"""What went out and what came back, over the API: who may see it, and what is on record."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from fencepost.keyring import Keyring
from stage import Stage

Ask = Callable[..., TestResponse]


@pytest.fixture
def delivery(stage: Stage) -> UUID:
    (found,) = stage.deliveries(stage.subscription(headers={"X-Key": "hidden-value"}).id)
    stage.send(found, 503)
    return found


@pytest.fixture
def ask(app: Flask, stage: Stage, delivery: UUID) -> Ask:
    """A program that asks for something of the delivery."""
    client: FlaskClient = app.test_client()

    def send(path: str, *, role: str = "operator", method: str = "GET") -> TestResponse:
        headers = {"Authorization": f"Bearer {stage.token(role)}"}
        return client.open(f"/api/v1/deliveries/{delivery}{path}", method=method, headers=headers)

    return send


def test_an_attempt_is_told_without_secrets(ask: Ask, delivery: UUID) -> None:
    found: Any = ask("/attempts/1").json
    assert (found["delivery_id"], found["attempt"]) == (str(delivery), 1)
    assert found["url"] == "https://hooks.example.test/in"
    assert ["X-Key", "••••"] in found["headers"]
    assert ["Fencepost-Attempt", "1"] in found["headers"]
    assert [row["state"] for row in found["rows"]] == ["LEASED", "ATTEMPTED", "FAILED", "RETRIED"]
    assert (found["response"], found["response_fault"]) == (None, None)
    assert "hidden-value" not in json.dumps(found)


@pytest.mark.parametrize("number", ["0", "2", "x", "-1", "9" * 30])
def test_an_attempt_that_there_is_not_is_not_found(ask: Ask, number: str) -> None:
    assert ask(f"/attempts/{number}").status_code == 404


def test_an_answer_is_for_operators(
    ask: Ask, stage: Stage, delivery: UUID, endpoint_keyring: Keyring
) -> None:
    body = base64.b64encode(b"\x00try later").decode()
    kept = {"status": 503, "headers": [["Server", "x"]], "body": body, "is_truncated": True}
    sealed = endpoint_keyring.seal(
        json.dumps(kept).encode(), context=("response", str(delivery), "1")
    )
    stage.conn.execute(
        "INSERT INTO webhook_responses (delivery_id, attempt, sealed) VALUES (%s, 1, %s)"
        " ON CONFLICT (delivery_id, attempt) DO UPDATE SET sealed = excluded.sealed",
        (delivery, sealed),
    )
    assert ask("/attempts/1", role="viewer").json["response"] is None  # type: ignore[index]
    told: Any = ask("/attempts/1").json
    assert told["response"] == {
        "status": 503, "headers": [["Server", "x"]], "body_base64": body, "is_truncated": True
    }  # fmt: skip
    stage.conn.execute("UPDATE webhook_responses SET sealed = 'spoilt'")
    spoilt: Any = ask("/attempts/1").json
    assert spoilt["response"] is None
    assert "cannot be opened" in spoilt["response_fault"]


def test_a_payload_is_told_to_operators_and_put_on_record(
    ask: Ask, stage: Stage, delivery: UUID
) -> None:
    acts = "SELECT count(*) FROM webhook_operator_actions WHERE action = 'payload.reveal'"
    payload = b'{"amount": 12345678901234567890, "note": "\xc3\xbc"}'
    stage.give_payload(delivery, payload)
    reveal = "/payload/reveal"
    assert ask(reveal).status_code == 405
    assert ask(reveal, role="viewer", method="POST").status_code == 403
    assert stage.value(f"{acts} AND outcome = 'done'") == 0
    answer = ask(reveal, method="POST")
    assert answer.headers["Cache-Control"] == "no-store"
    told: Any = answer.json
    assert base64.b64decode(told["payload_base64"]) == payload
    assert (told["bytes"], told["content_type"]) == (len(payload), "application/json")
    assert stage.value(f"{acts} AND outcome = 'done' AND target = %s", str(delivery)) == 1


def test_a_payload_that_cannot_be_opened_is_a_conflict_on_record(ask: Ask, stage: Stage) -> None:
    answer = ask("/payload/reveal", method="POST")
    assert answer.status_code == 409
    assert "cannot be opened" in answer.text
    assert stage.value("SELECT outcome FROM webhook_operator_actions ORDER BY id DESC") == "refused"
