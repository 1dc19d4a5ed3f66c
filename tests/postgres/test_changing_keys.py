"""Keys go missing and are replaced, and secrets change, while deliveries wait: none is lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from factories import subscribe, trail
from fencepost.keyring import Keyring
from fencepost.receiver import NoMatchError, verify
from fencepost.store.secrets import revoke_secret, rotate_secret
from fencepost.store.wrapping import KINDS, rewrap
from receiver import Receiver, in_turn
from waiting import eventually
from worker.build import Worker
from workers import WorkerThread

pytestmark = pytest.mark.postgres

OLD, NEW = Keyring.generate(), Keyring.generate()
OLD_ENDPOINT, NEW_ENDPOINT = Keyring.generate(), Keyring.generate()
FIRST = {"keys": OLD, "endpoint_keys": OLD_ENDPOINT}
LAST = {"keys": NEW, "endpoint_keys": NEW_ENDPOINT}
BOTH = {name: f"{LAST[name]},{FIRST[name]}" for name in FIRST}


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


def publish(db: Connection[Any], keys: str) -> None:
    """Take in an event, sealed by a producer with these keys."""
    row = db.execute("SELECT fencepost_uuid7(fencepost_now())").fetchone()
    assert row is not None
    key_id, sealed = Keyring.parse(keys).seal_payload(
        b"{}", event_id=row[0], content_type="text/plain", event_type="a.b"
    )
    db.execute(
        "SELECT webhook_publish_sealed(%s, 'a.b', 'text/plain', NULL, 2, %s, %s, NULL, 'n')",
        (row[0], key_id, sealed),
    )


def delivery(db: Connection[Any]) -> tuple[UUID, str, int] | None:
    """Give id, state and attempts of the only one."""
    found = db.execute("SELECT id, current_state, attempt_count FROM webhook_deliveries")
    return found.fetchone()


@pytest.mark.parametrize("missing", ["keys", "endpoint_keys"])
def test_without_its_key_a_delivery_waits_and_uses_no_attempt(
    db: Connection[Any], db_url: str, settings: Any, missing: str
) -> None:
    with Receiver() as receiver:
        subscribe(db, Keyring.parse(OLD_ENDPOINT), receiver.url)
        publish(db, OLD)
        lacking = FIRST | {missing: LAST[missing]}
        with WorkerThread(Worker(settings(db_url, **lacking))):
            eventually(lambda: (delivery(db) or ("", "", 0))[1] == "RETRIED")
        found = delivery(db)
        assert found is not None
        assert found[2] == 0
        assert trail(db, found[0]) == ["RECEIVED", "ENCRYPTED", "LEASED", "RELEASED", "RETRIED"]
        assert receiver.requests == []

        db.execute("UPDATE webhook_deliveries SET next_attempt_at = fencepost_now()")
        with WorkerThread(Worker(settings(db_url, **lacking | {missing: BOTH[missing]}))):
            receiver.wait_for(1)
            eventually(lambda: (delivery(db) or ("", "", 0))[1:] == ("DELIVERED", 1))


def test_a_retry_is_sent_after_everything_was_wrapped_anew(
    db: Connection[Any], db_url: str, settings: Any
) -> None:
    rings = {f"FENCEPOST_{name.upper()}": Keyring.parse(text) for name, text in BOTH.items()}
    with Receiver(in_turn(503, 200)) as receiver:
        _, secret = subscribe(
            db,
            Keyring.parse(OLD_ENDPOINT),
            receiver.url,
            backoff_base_seconds=600,
            backoff_cap_seconds=600,
        )
        publish(db, OLD)
        with WorkerThread(Worker(settings(db_url, **BOTH))):
            receiver.wait_for(1)
            eventually(lambda: (delivery(db) or ("", "", 0))[1] == "RETRIED")
            done = {
                kind.name: sum(batch.done for batch in rewrap(db, rings[kind.setting], kind))
                for kind in KINDS
            }
        assert (done["payloads"], done["endpoint URLs"], done["signing secrets"]) == (1, 1, 1)
        db.execute("UPDATE webhook_deliveries SET next_attempt_at = fencepost_now()")
        with WorkerThread(Worker(settings(db_url, **LAST))):
            _, retried = receiver.wait_for(2)
            verify(retried.body, retried.headers, secret)
            eventually(lambda: (delivery(db) or ("", "", 0))[1:] == ("DELIVERED", 2))


@pytest.mark.parametrize("is_revoked", [False, True])
def test_a_pending_retry_is_signed_with_the_secrets_of_its_own_moment(
    db: Connection[Any], db_url: str, settings: Any, *, is_revoked: bool
) -> None:
    ring = Keyring.parse(OLD_ENDPOINT)
    with Receiver(in_turn(503, 200)) as receiver, WorkerThread(Worker(settings(db_url, **FIRST))):
        id_, first = subscribe(
            db, ring, receiver.url, backoff_base_seconds=600, backoff_cap_seconds=600
        )
        publish(db, OLD)
        receiver.wait_for(1)
        eventually(lambda: (delivery(db) or ("", "", 0))[1] == "RETRIED")
        secrets = [first]
        for _ in range(2):
            with db.transaction():
                secrets.append(
                    rotate_secret(db, ring, id_, overlap=timedelta(hours=1), actor="dana")[1]
                )
        if is_revoked:
            with db.transaction():
                assert revoke_secret(db, id_, actor="dana") == 2
        db.execute("UPDATE webhook_deliveries SET next_attempt_at = fencepost_now()")
        before, retried = receiver.wait_for(2)

    verify(before.body, before.headers, first)
    for secret in secrets[2:] if is_revoked else secrets:
        verify(retried.body, retried.headers, secret)
    if is_revoked:
        with pytest.raises(NoMatchError):
            verify(retried.body, retried.headers, secrets[:2])
