"""``fencepost keys`` replaces a key under everything that is stored, while everything runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection

from commands import Commands
from factories import subscribe
from fencepost.errors import KeyUnavailableError
from fencepost.keyring import Keyring
from fencepost.store.wrapping import KINDS, count_by_key, rewrap

OLD, NEW = Keyring.generate(), Keyring.generate()
OLD_ENDPOINT, NEW_ENDPOINT = Keyring.generate(), Keyring.generate()
BOTH: dict[str, Any] = {"keys": f"{NEW},{OLD}", "endpoint_keys": f"{NEW_ENDPOINT},{OLD_ENDPOINT}"}
PAYLOADS = KINDS[0]
BODY = b"b" * 5000


@pytest.fixture
def owner(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as conn:
        yield conn


def store_payload(conn: Connection[Any], body: bytes = BODY) -> UUID:
    """Insert a payload that the old key seals."""
    event_id = uuid4()
    key_id, sealed = Keyring.parse(OLD).seal_payload(
        body, event_id=event_id, content_type="text/plain", event_type="a.b"
    )
    conn.execute("INSERT INTO webhook_payloads VALUES (%s, %s, %s)", (event_id, key_id, sealed))
    return event_id


def open_payload(conn: Connection[Any], keys: str, event_id: UUID) -> bytes:
    """Open it again, with these keys alone."""
    row = conn.execute(
        "SELECT key_id, sealed FROM webhook_payloads WHERE event_id = %s", (event_id,)
    ).fetchone()
    assert row is not None
    ring = Keyring.parse(keys)
    body = ring.open_payload(row[1], event_id=event_id, content_type="text/plain", event_type="a.b")
    assert row[0] == ring.key_ids[0], "the column names the key that wraps"
    return body


def store_response(conn: Connection[Any], attempt: int) -> UUID:
    """Insert a kept response that the old key seals."""
    delivery_id = uuid4()
    sealed = Keyring.parse(OLD_ENDPOINT).seal(
        b"{}", context=("response", str(delivery_id), str(attempt))
    )
    conn.execute(
        "INSERT INTO webhook_responses VALUES (%s, %s, %s)", (delivery_id, attempt, sealed)
    )
    return delivery_id


def test_everything_opens_with_the_new_keys_alone(
    fencepost: Commands, owner: Connection[Any]
) -> None:
    old, new = Keyring.parse(OLD_ENDPOINT), Keyring.parse(NEW_ENDPOINT)
    id_, secret = subscribe(owner, old, "http://127.0.0.1/x", headers={"X-A": "b"})
    delivery_id = store_response(owner, 3)
    events = {store_payload(owner, body): body for body in (b"", b"x", BODY)}

    printed = json.loads(fencepost.run_quietly("keys", "rotate", "--json", **BOTH).stdout)

    assert printed["wrapped_anew"] == {
        "payloads": 3,
        "endpoint URLs": 1,
        "headers": 1,
        "signing secrets": 1,
        "responses": 1,
    }
    for event_id, body in events.items():
        assert open_payload(owner, NEW, event_id) == body
    row = owner.execute(
        "SELECT s.endpoint_sealed, s.headers_sealed, k.id, k.sealed, r.sealed, s.config_version"
        "  FROM webhook_subscriptions s, webhook_signing_secrets k, webhook_responses r"
    ).fetchone()
    assert row is not None
    url, headers, secret_id, sealed_secret, response, version = row
    assert new.open(url, context=("endpoint", str(id_))) == b"http://127.0.0.1/x"
    assert json.loads(new.open(headers, context=("headers", str(id_)))) == {"X-A": "b"}
    place = ("signing-secret", str(id_), str(secret_id))
    assert new.open(sealed_secret, context=place).decode() == secret
    assert new.open(response, context=("response", str(delivery_id), "3")) == b"{}"
    assert version == 1, "nothing that is sent has changed"
    logged = owner.execute(
        "SELECT params FROM webhook_operator_actions WHERE action = 'keys.rotate'"
    ).fetchall()
    assert [row[0]["FENCEPOST_KEYS"] for row in logged] == [NEW.partition(":")[0]]
    again = json.loads(fencepost.run_quietly("keys", "rotate", "--json", **BOTH).stdout)
    assert set(again["wrapped_anew"].values()) == {0}


def test_the_list_says_when_an_old_key_can_go(fencepost: Commands, owner: Connection[Any]) -> None:
    store_payload(owner)
    mac = Keyring.parse(OLD).mac("a")
    owner.execute(
        "INSERT INTO webhook_idempotency_keys VALUES ('k', gen_random_uuid(), %s)", (mac,)
    )
    old, new = OLD.partition(":")[0], NEW.partition(":")[0]

    def listed(**keys: Any) -> list[tuple[str, str, dict[str, int]]]:
        printed = json.loads(fencepost.run_quietly("keys", "list", "--json", **keys).stdout)
        return [
            (line["key"], line["role"], line["wraps"])
            for line in printed["data"]
            if line["setting"] == "FENCEPOST_KEYS"
        ]

    both = {"payloads": 1, "idempotency keys": 1}
    assert listed(**BOTH) == [(new, "seals", {}), (old, "opens", both)]
    assert listed(keys=NEW) == [(new, "seals", {}), (old, "missing", both)]
    fencepost.run_quietly("keys", "rotate", **BOTH)
    assert listed(**BOTH) == [
        (new, "seals", {"payloads": 1}),
        (old, "opens", {"idempotency keys": 1}),
    ]
    shown = fencepost.run_quietly("keys", "list", **BOTH).stdout
    assert "1 payloads" in shown
    for keys in (OLD, NEW, OLD_ENDPOINT, NEW_ENDPOINT):
        assert keys.partition(":")[2] not in shown


def test_a_rotation_that_was_killed_is_run_again(owner: Connection[Any]) -> None:
    events = [store_payload(owner) for _ in range(5)]
    ring = Keyring.parse(BOTH["keys"])
    killed = rewrap(owner, ring, PAYLOADS, batch=2)
    assert next(killed).done == 2
    del killed
    assert count_by_key(owner, PAYLOADS) == {ring.key_ids[0]: 2, ring.key_ids[1]: 3}
    assert [batch.done for batch in rewrap(owner, ring, PAYLOADS, batch=2)] == [0, 2, 1]
    assert {open_payload(owner, NEW, event_id) for event_id in events} == {BODY}


def test_what_changes_meanwhile_is_not_overwritten(
    owner: Connection[Any], superuser_url: str
) -> None:
    """Another rotation, or a new URL, comes between the reading of a batch and its writing."""
    event_id = store_payload(owner)
    third = Keyring.generate()

    class Overtaken(Keyring):
        def rewrap_payload(self, blob: bytes, *, event_id: UUID) -> tuple[str, bytes]:
            with psycopg.connect(superuser_url, autocommit=True) as other:
                ring = Keyring.parse(f"{third},{OLD}")
                assert [batch.done for batch in rewrap(other, ring, PAYLOADS)] == [1]
            return super().rewrap_payload(blob, event_id=event_id)

    batches = list(rewrap(owner, Overtaken.parse(BOTH["keys"]), PAYLOADS))
    assert [(batch.done, batch.failures) for batch in batches] == [(0, {})]
    assert open_payload(owner, third, event_id) == BODY


def test_what_cannot_be_opened_is_told_and_left_alone(
    fencepost: Commands, owner: Connection[Any]
) -> None:
    kept, good = store_payload(owner), store_payload(owner)
    owner.execute(
        "UPDATE webhook_payloads SET sealed = overlay(sealed PLACING '\\x00'::bytea FROM 1)"
        " WHERE event_id = %s",
        (kept,),
    )
    failed = fencepost.run_quietly("keys", "rotate", status=1, **BOTH)
    assert "1 times: this ciphertext was changed, moved or cut" in failed.stderr
    assert open_payload(owner, NEW, good) == BODY
    listed = fencepost.run_quietly("keys", "list", "--json", **BOTH).stdout
    assert [line["role"] for line in json.loads(listed)["data"]][2] == "damaged"

    waiting = store_payload(owner)
    failed = fencepost.run_quietly("keys", "rotate", status=1, keys=NEW)
    assert "is not in the keyring: put it back" in failed.stderr
    with pytest.raises(KeyUnavailableError):
        open_payload(owner, NEW, waiting)
    assert open_payload(owner, OLD, waiting) == BODY


def test_a_generated_key_can_be_set(fencepost: Commands) -> None:
    printed = fencepost.run("keys", "generate").stdout
    assert len(Keyring.parse(printed).key_ids) == 1
    assert fencepost.run("keys", "generate").stdout != printed
