from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import dict_row

from factories import make_subscription, pass_time
from fencepost import signing
from fencepost.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    NotInTransactionError,
)
from fencepost.keyring import Keyring
from fencepost.model import Subscription
from fencepost.producer import Producer
from fencepost.store import events, secrets, subscriptions
from fencepost.store.actions import list_actions
from fencepost.store.outbox import fan_out, lock_outbox
from fencepost.store.sending import SealedEndpoint, read_endpoints
from fencepost.subscription_spec import read_change, read_spec
from journeys import acting_as

ACTOR = "user dana"
URL = "https://example.com/hooks/9f8e7d6c5b4a39281706?token=very-secret"


@pytest.fixture
def db(superuser: Connection[Any]) -> Iterator[Connection[Any]]:
    with superuser.transaction(force_rollback=True), acting_as(superuser, "dashboard"):
        yield superuser


@pytest.fixture
def add(db: Connection[Any], endpoint_keyring: Keyring) -> Callable[..., tuple[Subscription, str]]:
    def make(**fields: object) -> tuple[Subscription, str]:
        spec = read_spec({"name": "orders", "url": URL, **fields}, allow_http=False)
        return subscriptions.add_subscription(db, endpoint_keyring, spec, actor=ACTOR)

    return make


def sealed(db: Connection[Any], subscription_id: UUID) -> SealedEndpoint:
    """As the worker sees it."""
    return read_endpoints(db, [subscription_id])[subscription_id]


def valid_secrets(db: Connection[Any], keyring: Keyring, subscription_id: UUID) -> list[str]:
    found = sealed(db, subscription_id)
    return [
        keyring.open(
            blob, context=("signing-secret", str(subscription_id), str(secret_id))
        ).decode()
        for secret_id, blob in zip(found.secret_ids, found.secrets_sealed, strict=True)
    ]


def everything_stored(db: Connection[Any]) -> str:
    """All that the tables hold of subscriptions and actions, as text."""
    texts = [
        db.execute(f"SELECT t::text FROM {table} t").fetchall()
        for table in (
            "webhook_subscriptions",
            "webhook_signing_secrets",
            "webhook_operator_actions",
        )
    ]
    return json.dumps(texts)


def test_what_is_secret_is_sealed_for_its_own_row(
    db: Connection[Any], add: Callable[..., Any], endpoint_keyring: Keyring
) -> None:
    found, secret = add(headers={"X-Token": "also-secret"})
    assert secret.startswith("whsec_")
    stored = sealed(db, found.id)
    opened = endpoint_keyring.open(stored.endpoint_sealed, context=("endpoint", str(found.id)))
    assert opened.decode() == URL
    assert stored.headers_sealed is not None
    headers = endpoint_keyring.open(stored.headers_sealed, context=("headers", str(found.id)))
    assert json.loads(headers) == {"X-Token": "also-secret"}
    assert valid_secrets(db, endpoint_keyring, found.id) == [secret]
    assert found.endpoint_origin == "https://example.com"
    assert found.endpoint_masked == "https://example.com/hooks/***?***"
    assert found.header_names == ("X-Token",)
    text = everything_stored(db)
    for part in ("very-secret", "also-secret", "9f8e7d6c5b4a", secret.removeprefix("whsec_")):
        assert part not in text


def test_every_field_is_stored_and_read_back(db: Connection[Any], add: Callable[..., Any]) -> None:
    found, _ = add(
        event_types=["invoice.*", "crm_deal.won"],
        signature_scheme="stripe",
        signature_header="X-Sig",
        max_attempts=3,
        backoff_base_seconds=0.5,
        backoff_cap_seconds=8,
        retry_statuses=[404],
        no_retry_statuses=[501, 503],
        secret="a-secret-that-was-brought-along",
    )
    assert subscriptions.get_subscription(db, found.id) == found
    assert found.event_types == ("invoice.*", "crm_deal.won")
    assert (found.signature_scheme, found.signature_header) == ("stripe", "X-Sig")
    assert (found.max_attempts, found.backoff_base_seconds, found.backoff_cap_seconds) == (
        3,
        0.5,
        8.0,
    )
    assert (found.retry_statuses, found.no_retry_statuses) == ((404,), (501, 503))
    assert (found.state, found.paused_reason, found.removed_at) == ("active", None, None)
    patterns = db.execute("SELECT event_type_patterns FROM webhook_subscriptions").fetchall()
    assert patterns == [(["invoice.%", r"crm\_deal.won"],)]
    preset, _ = add(retry_preset="standard-webhooks")
    assert (preset.max_attempts, preset.retry_preset) == (10, "standard-webhooks")


def patch(
    db: Connection[Any], keyring: Keyring, subscription_id: UUID, **fields: object
) -> Subscription:
    current = subscriptions.lock_subscription(db, subscription_id)
    change = read_change(fields, current, allow_http=False)
    return subscriptions.update_subscription(db, keyring, current.id, change, actor=ACTOR)


def test_a_change_keeps_what_it_does_not_name(
    db: Connection[Any], add: Callable[..., Any], endpoint_keyring: Keyring
) -> None:
    found, secret = add(headers={"X-A": "1"}, event_types=["a.*"])
    before = sealed(db, found.id)
    changed = patch(db, endpoint_keyring, found.id, name="crm", max_attempts=2)
    assert (changed.name, changed.max_attempts) == ("crm", 2)
    assert (changed.event_types, changed.header_names) == (("a.*",), ("X-A",))
    after = sealed(db, found.id)
    assert after.endpoint_sealed == before.endpoint_sealed
    assert after.headers_sealed == before.headers_sealed
    assert after.config_version == before.config_version + 1
    assert valid_secrets(db, endpoint_keyring, found.id) == [secret]
    assert list_actions(db).rows[0].params == {"name": "crm", "max_attempts": 2}


def test_url_and_headers_are_replaced_as_a_whole(
    db: Connection[Any], add: Callable[..., Any], endpoint_keyring: Keyring
) -> None:
    found, _ = add(headers={"X-A": "1", "X-B": "2"})
    changed = patch(
        db, endpoint_keyring, found.id, url="https://example.org/x", headers={"X-C": "3"}
    )
    assert (changed.endpoint_masked, changed.header_names) == ("https://example.org/x", ("X-C",))
    stored = sealed(db, found.id)
    opened = endpoint_keyring.open(stored.endpoint_sealed, context=("endpoint", str(found.id)))
    assert opened == b"https://example.org/x"
    cleared = patch(db, endpoint_keyring, found.id, headers={})
    assert cleared.header_names == ()
    assert sealed(db, found.id).headers_sealed is None


def test_a_scheme_that_the_secret_cannot_sign_in_is_refused(
    db: Connection[Any], add: Callable[..., Any], endpoint_keyring: Keyring
) -> None:
    found, _ = add(signature_scheme="stripe", secret="a-secret-that-was-brought-along")
    with pytest.raises(InvalidInputError) as caught:
        patch(db, endpoint_keyring, found.id, signature_scheme="standard")
    assert caught.value.field == "signature_scheme"
    secrets.rotate_secret(db, endpoint_keyring, found.id, actor=ACTOR)
    secrets.revoke_secret(db, found.id, actor=ACTOR)
    changed = patch(db, endpoint_keyring, found.id, signature_scheme="standard")
    assert changed.signature_scheme == "standard"


def test_a_paused_subscription_says_why_until_it_is_resumed(
    db: Connection[Any], add: Callable[..., Any]
) -> None:
    found, _ = add()
    paused = subscriptions.pause_subscription(db, found.id, reason="maintenance", actor=ACTOR)
    assert (paused.state, paused.paused_reason) == ("paused", "maintenance")
    again = subscriptions.pause_subscription(db, found.id, reason="another", actor=ACTOR)
    assert again == paused
    with acting_as(db, "worker"):
        db.execute(
            "INSERT INTO webhook_failing_subscriptions VALUES (%s, now() - interval '4 days')",
            (found.id,),
        )
    resumed = subscriptions.resume_subscription(db, found.id, actor=ACTOR)
    assert (resumed.state, resumed.paused_reason) == ("active", None)
    assert subscriptions.resume_subscription(db, found.id, actor=ACTOR) == resumed
    assert db.execute("SELECT FROM webhook_failing_subscriptions").fetchall() == []
    times = db.execute("SELECT resumed_at >= paused_at FROM webhook_subscriptions").fetchall()
    assert times == [(True,)]
    done = [action.action for action in list_actions(db).rows]
    assert done == ["subscription.resume", "subscription.pause", "subscription.add"]


def test_a_pause_without_a_reason_says_who(db: Connection[Any], add: Callable[..., Any]) -> None:
    found, _ = add()
    paused = subscriptions.pause_subscription(db, found.id, actor=ACTOR)
    assert paused.paused_reason == "paused by user dana"


def test_a_removed_subscription_is_gone_but_for_its_history(
    db: Connection[Any], add: Callable[..., Any], endpoint_keyring: Keyring
) -> None:
    found, _ = add()
    removed = subscriptions.remove_subscription(db, found.id, actor=ACTOR)
    assert removed.removed_at is not None
    assert sealed(db, found.id).is_removed
    assert subscriptions.get_subscription(db, found.id, with_removed=True) == removed
    acts: list[Callable[[], object]] = [
        lambda: subscriptions.get_subscription(db, found.id),
        lambda: subscriptions.find_subscription(db, found.name),
        lambda: subscriptions.pause_subscription(db, found.id, actor=ACTOR),
        lambda: subscriptions.resume_subscription(db, found.id, actor=ACTOR),
        lambda: subscriptions.remove_subscription(db, found.id, actor=ACTOR),
        lambda: secrets.rotate_secret(db, endpoint_keyring, found.id, actor=ACTOR),
        lambda: secrets.revoke_secret(db, found.id, actor=ACTOR),
        lambda: patch(db, endpoint_keyring, found.id, name="x"),
    ]
    for act in acts:
        with pytest.raises(NotFoundError):
            act()
    assert subscriptions.list_subscriptions(db).rows == ()
    assert subscriptions.list_subscriptions(db, with_removed=True).rows == [removed]


def test_one_is_found_by_id_or_by_a_name_that_only_it_has(
    db: Connection[Any], add: Callable[..., Any]
) -> None:
    found, _ = add(name="crm")
    assert subscriptions.find_subscription(db, str(found.id)) == found
    assert subscriptions.find_subscription(db, " crm ") == found
    for text in ("CRM", "", "a\0b", "\udce9", "x" * 500, str(uuid4())):
        with pytest.raises(NotFoundError):
            subscriptions.find_subscription(db, text)
    add(name="crm")
    with pytest.raises(ConflictError, match="give the id"):
        subscriptions.find_subscription(db, "crm")


def test_they_are_listed_newest_first(db: Connection[Any], add: Callable[..., Any]) -> None:
    made = [add(name=f"s{n}")[0] for n in range(3)]
    page = subscriptions.list_subscriptions(db, limit=2)
    assert page.rows == [made[2], made[1]]
    rest = subscriptions.list_subscriptions(db, limit=2, after=page.next)
    assert rest.rows == [made[0]]
    assert rest.next is None


# secrets


def test_rotation_keeps_the_old_secret_signing_for_the_overlap(
    db: Connection[Any], add: Callable[..., Any], endpoint_keyring: Keyring
) -> None:
    found, first = add()
    version = sealed(db, found.id).config_version
    _, second = secrets.rotate_secret(db, endpoint_keyring, found.id, actor=ACTOR)
    assert valid_secrets(db, endpoint_keyring, found.id) == [second, first]
    assert sealed(db, found.id).config_version == version + 1
    db.execute("RESET ROLE")
    pass_time(db, 24 * 3600 - 60)
    assert len(valid_secrets(db, endpoint_keyring, found.id)) == 2
    pass_time(db, 24 * 3600 + 60)
    assert valid_secrets(db, endpoint_keyring, found.id) == [second]


def test_at_most_three_secrets_are_valid(
    db: Connection[Any], add: Callable[..., Any], endpoint_keyring: Keyring
) -> None:
    found, first = add()
    made = [first]
    for _ in range(4):
        made.insert(0, secrets.rotate_secret(db, endpoint_keyring, found.id, actor=ACTOR)[1])
        assert valid_secrets(db, endpoint_keyring, found.id) == made[:3]


def test_a_shorter_overlap_stays_when_it_is_rotated_again(
    db: Connection[Any], add: Callable[..., Any], endpoint_keyring: Keyring
) -> None:
    found, first = add()
    rotate = secrets.rotate_secret
    rotate(db, endpoint_keyring, found.id, overlap=timedelta(minutes=5), actor=ACTOR)
    rotate(db, endpoint_keyring, found.id, actor=ACTOR)
    db.execute("RESET ROLE")
    pass_time(db, 600)
    now = valid_secrets(db, endpoint_keyring, found.id)
    assert len(now) == 2
    assert first not in now


def test_revoking_ends_the_old_ones_at_once_and_never_the_current(
    db: Connection[Any], add: Callable[..., Any], endpoint_keyring: Keyring
) -> None:
    found, _ = add()
    assert secrets.revoke_secret(db, found.id, actor=ACTOR) == 0
    secrets.rotate_secret(db, endpoint_keyring, found.id, actor=ACTOR)
    _, last = secrets.rotate_secret(db, endpoint_keyring, found.id, actor=ACTOR)
    assert secrets.revoke_secret(db, found.id, actor=ACTOR) == 2
    assert valid_secrets(db, endpoint_keyring, found.id) == [last]


def test_no_overlap_ends_the_old_one_at_once(
    db: Connection[Any], add: Callable[..., Any], endpoint_keyring: Keyring
) -> None:
    found, _ = add()
    _, new = secrets.rotate_secret(
        db, endpoint_keyring, found.id, overlap=timedelta(0), actor=ACTOR
    )
    assert valid_secrets(db, endpoint_keyring, found.id) == [new]


@pytest.mark.parametrize("overlap", [timedelta(seconds=-1), timedelta(days=31)])
def test_an_overlap_has_limits(
    db: Connection[Any],
    add: Callable[..., Any],
    endpoint_keyring: Keyring,
    overlap: timedelta,
) -> None:
    found, _ = add()
    with pytest.raises(InvalidInputError) as caught:
        secrets.rotate_secret(db, endpoint_keyring, found.id, overlap=overlap, actor=ACTOR)
    assert caught.value.field == "overlap_seconds"


def test_rotations_at_once_leave_one_current_secret(
    superuser_url: str, endpoint_keyring: Keyring
) -> None:
    with psycopg.connect(superuser_url) as one, psycopg.connect(superuser_url) as other:
        sub = make_subscription(one)
        one.commit()
        secrets.rotate_secret(one, endpoint_keyring, sub, actor=ACTOR)
        other.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            secrets.rotate_secret(other, endpoint_keyring, sub, actor=ACTOR)
        other.rollback()
        one.commit()
        secrets.rotate_secret(other, endpoint_keyring, sub, actor=ACTOR)
        other.commit()
        current = one.execute(
            "SELECT count(*) FILTER (WHERE expires_at IS NULL), count(*)"
            "  FROM webhook_signing_secrets"
        ).fetchone()
        assert current == (1, 2)


# tests of an endpoint


def test_a_test_event_meets_its_subscription_alone(
    db: Connection[Any], add: Callable[..., Any], keyring: Keyring
) -> None:
    found, _ = add(event_types=["nothing.else"])
    add(name="another", event_types=["*"])
    producer = Producer(keyring)
    event_id = subscriptions.publish_test(db, found.id, producer=producer, actor=ACTOR)
    event = events.get_event(db, event_id)
    assert (event.event_type, event.only_subscription_id) == ("fencepost.test", found.id)
    assert not event.is_fanned_out
    payload = json.loads(events.read_payload(db, keyring, event_id))
    assert payload["subscription"] == {"id": str(found.id), "name": "orders"}
    with acting_as(db, "worker"):
        rows = lock_outbox(db, 10)
        assert fan_out(db, [(row, None) for row in rows], worker_id="w-1") == 1
    assert events.get_event(db, event_id).is_fanned_out
    with db.cursor(row_factory=dict_row) as cur:
        (made,) = cur.execute("SELECT * FROM webhook_deliveries").fetchall()
    assert (made["subscription_id"], made["event_id"]) == (found.id, event_id)


def test_only_a_subscription_that_is_there_is_tested(db: Connection[Any], keyring: Keyring) -> None:
    with pytest.raises(NotFoundError):
        subscriptions.publish_test(db, uuid4(), producer=Producer(keyring), actor=ACTOR)


def test_a_change_needs_a_transaction(db_url: str, endpoint_keyring: Keyring) -> None:
    spec = read_spec({"name": "a", "url": "https://example.com/"}, allow_http=False)
    with psycopg.connect(db_url, autocommit=True) as conn:
        with pytest.raises(NotInTransactionError):
            subscriptions.add_subscription(conn, endpoint_keyring, spec, actor=ACTOR)
        with pytest.raises(NotInTransactionError):
            subscriptions.remove_subscription(conn, uuid4(), actor=ACTOR)


# payloads


def test_a_payload_is_read_sealed_or_from_the_outbox_until_it_is_erased(
    db: Connection[Any], keyring: Keyring
) -> None:
    body = b'{"b":1,  "a":1.10}\n'
    with acting_as(db, "producer"):
        row = db.execute("SELECT webhook_publish('a.b', %s)", (body,)).fetchone()
    assert row is not None
    with pytest.raises(NotFoundError):
        events.get_event(db, uuid4())
    assert events.read_payload(db, keyring, row[0]) == body
    assert events.get_event(db, row[0]).payload_bytes == len(body)
    db.execute("RESET ROLE")
    db.execute("UPDATE webhook_outbox SET payload = NULL")
    with pytest.raises(NotFoundError, match="erased"):
        events.read_payload(db, keyring, row[0])


def test_a_secret_that_was_generated_signs_in_every_scheme(add: Callable[..., Any]) -> None:
    _, secret = add()
    for scheme in signing.SCHEMES:
        signing.check_secret(secret, scheme)
