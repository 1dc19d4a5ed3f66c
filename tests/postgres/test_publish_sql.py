"""The SQL functions take in what the contract says, from a role that may do nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection

from fencepost.keyring import Keyring
from fencepost.store import publishing

pytestmark = pytest.mark.postgres

ACCEPTED = "SELECT webhook_publish('order.paid', '[]')"
SEALED = """
SELECT * FROM webhook_publish_sealed(
    %(event_id)s, %(event_type)s, %(content_type)s, %(idempotency_key)s, %(payload_bytes)s::integer,
    %(key_id)s, %(sealed)s, %(mac)s, %(node)s)
"""


@pytest.fixture
def producer(conn: Connection[Any]) -> Iterator[Connection[Any]]:
    """A connection with a producer's rights alone."""
    conn.execute("SET ROLE fencepost_producer")
    yield conn
    conn.rollback()


def refusal(conn: Connection[Any], statement: str, values: Any = None) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught, conn.transaction():
        conn.execute(statement.encode(), values)
    return caught.value


def only(conn: Connection[Any], statement: str, values: Any = None) -> Any:
    (row,) = conn.execute(statement.encode(), values).fetchall()
    return row[0] if len(row) == 1 else row


def as_owner(conn: Connection[Any], statement: str) -> Any:
    conn.execute("RESET ROLE")
    found = only(conn, statement)
    conn.execute("SET ROLE fencepost_producer")
    return found


def sealed_values(**changes: Any) -> dict[str, Any]:
    keyring, event_id = Keyring.parse(Keyring.generate()), uuid4()
    key_id, sealed = keyring.seal_payload(
        b"[]", event_id=event_id, content_type="application/json", event_type="order.paid"
    )
    return {
        "event_id": event_id,
        "event_type": "order.paid",
        "content_type": "application/json",
        "idempotency_key": None,
        "payload_bytes": 2,
        "key_id": key_id,
        "sealed": sealed,
        "mac": None,
        "node": "shop-1",
    } | changes


def test_a_producer_publishes_and_may_do_nothing_else(producer: Connection[Any]) -> None:
    event_id = only(producer, ACCEPTED)
    for statement in (
        "SELECT FROM webhook_events",
        "SELECT FROM webhook_outbox",
        "SELECT FROM webhook_payloads",
        "SELECT FROM webhook_idempotency_keys",
        "SELECT FROM webhook_subscriptions",
        "SELECT FROM webhook_publish_settings",
        "INSERT INTO webhook_outbox (event_id) VALUES (gen_random_uuid())",
        "SELECT fencepost_take_in('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', 'node')",
        "SELECT webhook_publish_test(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "CREATE TABLE mine ()",
    ):
        assert refusal(producer, statement).sqlstate == "42501"
    assert as_owner(producer, "SELECT id FROM webhook_events") == event_id


def test_nobody_publishes_who_is_not_allowed_to(superuser: Connection[Any]) -> None:
    superuser.execute("CREATE ROLE stranger")
    superuser.execute("SET ROLE stranger")
    for statement in (ACCEPTED, "SELECT webhook_publish_sealed_many" + "(NULL" + ",NULL" * 8 + ")"):
        assert refusal(superuser, statement).sqlstate == "42501"


def test_an_event_is_taken_in_whole(producer: Connection[Any]) -> None:
    producer.execute("SET application_name = 'shop'")
    event_id = only(producer, "SELECT webhook_publish('order.paid', '\\x00ff', 'image/png', 'k')")
    producer.execute("RESET ROLE")
    event = only(
        producer,
        "SELECT id, event_type, content_type, payload_bytes, idempotency_key, node, sealed_by,"
        " only_subscription_id FROM webhook_events",
    )
    assert event == (event_id, "order.paid", "image/png", 2, "k", "shop@local", None, None)
    assert only(producer, "SELECT event_id, payload FROM webhook_outbox") == (
        event_id,
        b"\x00\xff",
    )
    assert only(producer, "SELECT * FROM webhook_idempotency_keys") == ("k", event_id, None)
    assert event_id.version == 7


def test_parameters_may_be_named(producer: Connection[Any]) -> None:
    event_id = only(
        producer,
        "SELECT webhook_publish(event_type => 'order.paid', payload => convert_to('\"\\u00e9\"',"
        " 'UTF8'), idempotency_key => 'k')",
    )
    assert isinstance(event_id, UUID)
    assert as_owner(producer, "SELECT payload FROM webhook_outbox") == b'"\\u00e9"'


@pytest.mark.parametrize(
    "arguments",
    [
        "NULL, '[]'",
        "'order.paid', NULL",
        "'order.paid', '[]', NULL",
        "'', '[]'",
        "'a..b', '[]'",
        "'.a', '[]'",
        "'a b', '[]'",
        "'ä', '[]'",
        "E'a\\n', '[]'",
        "repeat('x', 129), '[]'",
        "'fencepost.test', '[]'",
        "'a', '[]', ''",
        "'a', '[]', 'json'",
        "'a', '[]', E'text/plain\\r\\nX-Evil: 1'",
        "'a', '[]', 'text/plain; a=\"\\\"'",
        "'a', '[]', 'text/plain; a=' || repeat('x', 250)",
        "'a', '[]', 'text/plain', ''",
        "'a', '[]', 'text/plain', 'a b'",
        "'a', '[]', 'text/plain', 'é'",
        "'a', '[]', 'text/plain', repeat('x', 256)",
        "'a', convert_to(repeat('x', 262145), 'UTF8')",
    ],
)
def test_what_cannot_be_taken_in_is_22023(producer: Connection[Any], arguments: str) -> None:
    error = refusal(producer, f"SELECT webhook_publish({arguments})")
    assert error.sqlstate == "22023"
    assert "Evil" not in str(error.diag.message_primary)
    assert as_owner(producer, "SELECT count(*) FROM webhook_events") == 0


def test_what_is_at_the_border_is_taken_in(producer: Connection[Any]) -> None:
    for arguments in (
        "repeat('x', 128), convert_to(repeat('x', 262144), 'UTF8')",
        "'fencepost', ''",
        "'a', '[]', 'multipart/mixed; boundary=\"a ]b;c\"', repeat('~', 255)",
    ):
        assert only(producer, f"SELECT webhook_publish({arguments})")


@pytest.mark.parametrize("changes", [
    {"event_id": None},
    {"event_type": None},
    {"content_type": None},
    {"payload_bytes": None},
    {"payload_bytes": -1},
    {"payload_bytes": 262_145},
    {"key_id": None},
    {"key_id": ""},
    {"key_id": "a b"},
    {"sealed": None},
    {"sealed": b""},
    {"sealed": bytes(2000)},
    {"node": None},
    {"node": ""},
    {"node": "a\nb"},
    {"node": "x" * 129},
    {"event_type": "fencepost.test"},
    {"idempotency_key": ""},
])  # fmt: skip
def test_what_cannot_be_taken_in_sealed_is_22023(
    producer: Connection[Any], changes: dict[str, Any]
) -> None:
    assert refusal(producer, SEALED, sealed_values(**changes)).sqlstate == "22023"
    producer.execute(SEALED, sealed_values())


def test_arrays_of_different_lengths_are_22023(producer: Connection[Any]) -> None:
    error = refusal(
        producer,
        "SELECT * FROM webhook_publish_sealed_many(ARRAY[gen_random_uuid()], '{a,b}', '{a/b,a/b}',"
        " '{NULL,NULL}', '{1,1}', '{k,k}', '{1,1}', '{}', 'node')",
    )
    assert error.sqlstate == "22023"


def test_no_events_are_no_fault(producer: Connection[Any]) -> None:
    nothing = ", ".join(["'{}'"] * 8)
    statement = f"SELECT count(*) FROM webhook_publish_sealed_many({nothing}, 'node')"
    assert only(producer, statement) == 0


def test_a_known_key_gives_its_first_id(producer: Connection[Any]) -> None:
    statement = "SELECT webhook_publish('a', '[1]', 'text/plain', 'k')"
    assert only(producer, statement) == only(producer, statement)
    assert as_owner(producer, "SELECT count(*) FROM webhook_outbox") == 1


@pytest.mark.parametrize(
    "arguments",
    ["'b', '[1]', 'text/plain'", "'a', '[1]', 'text/html'", "'a', '[12]', 'text/plain'"],
)
def test_a_known_key_of_another_event_is_23505(producer: Connection[Any], arguments: str) -> None:
    producer.execute("SELECT webhook_publish('a', '[1]', 'text/plain', 'k')")
    error = refusal(producer, f"SELECT webhook_publish({arguments}, 'k')")
    assert error.sqlstate == "23505"
    assert error.diag.constraint_name == "webhook_idempotency_keys_pkey"
    assert as_owner(producer, "SELECT count(*) FROM webhook_outbox") == 1


def test_the_sealed_door_answers_what_it_knows_of_a_key(producer: Connection[Any]) -> None:
    first = sealed_values(idempotency_key="k", mac=b"mac")
    assert only(producer, SEALED, first) == (first["event_id"], False, True, None)
    again = sealed_values(idempotency_key="k", mac=b"other")
    assert only(producer, SEALED, again) == (first["event_id"], True, True, b"mac")
    other = sealed_values(idempotency_key="k", event_type="order.void")
    assert only(producer, SEALED, other) == (first["event_id"], True, False, b"mac")
    assert as_owner(producer, "SELECT count(*) FROM webhook_payloads") == 1


def test_the_clear_door_can_be_closed(conn: Connection[Any]) -> None:
    conn.execute("SET ROLE fencepost_owner")
    publishing.configure(conn, require_sealed=True, max_payload_bytes=2)
    assert publishing.read(conn) == (True, 2)
    conn.execute("SET ROLE fencepost_producer")
    error = refusal(conn, ACCEPTED)
    assert error.sqlstate == "42501"
    assert "FENCEPOST_REQUIRE_SEALED" in str(error)
    conn.execute(SEALED, sealed_values())
    assert refusal(conn, SEALED, sealed_values(payload_bytes=3)).sqlstate == "22023"


def test_the_size_limit_is_the_databases(conn: Connection[Any]) -> None:
    conn.execute("SET ROLE fencepost_owner")
    publishing.configure(conn, require_sealed=False, max_payload_bytes=2)
    conn.execute("SET ROLE fencepost_producer")
    conn.execute(ACCEPTED)
    error = refusal(conn, "SELECT webhook_publish('order.paid', '[1]')")
    assert error.sqlstate == "22023"
    assert "3 bytes, the limit is 2" in str(error)


def test_a_callers_search_path_changes_nothing(producer: Connection[Any]) -> None:
    producer.execute("RESET ROLE")
    producer.execute("CREATE SCHEMA trap AUTHORIZATION fencepost_producer")
    producer.execute("SET ROLE fencepost_producer")
    producer.execute("CREATE TEMP TABLE webhook_outbox (event_id uuid, payload bytea)")
    producer.execute("CREATE TABLE trap.webhook_events (id uuid)")
    producer.execute(
        "CREATE FUNCTION trap.fencepost_now() RETURNS timestamptz LANGUAGE plpgsql AS"
        " 'BEGIN RAISE EXCEPTION ''caught''; END'"
    )
    producer.execute("SET search_path = pg_temp, trap, pg_catalog, public")
    producer.execute("SET standard_conforming_strings = off")
    event_id = only(producer, "SELECT public.webhook_publish('order.paid', '[]')")
    assert as_owner(producer, "SELECT event_id FROM public.webhook_outbox") == event_id
    assert as_owner(producer, "SELECT count(*) FROM pg_temp.webhook_outbox") == 0


def test_every_door_runs_as_the_owner_with_a_fixed_path(conn: Connection[Any]) -> None:
    rows = conn.execute(
        "SELECT proname, prosecdef, proconfig, proowner::regrole::text FROM pg_proc"
        " WHERE proname ~ '^webhook_publish|^fencepost_take_in'"
    ).fetchall()
    assert len(rows) == 5
    for name, is_definer, config, owner in rows:
        assert is_definer == name.startswith("webhook_publish")
        assert config == ["search_path=public, pg_temp"]
        assert owner == "fencepost_owner"


def test_a_test_reaches_one_subscription_alone(conn: Connection[Any]) -> None:
    subscription_id = uuid4()
    values = sealed_values(event_type="fencepost.test", subscription_id=subscription_id)
    statement = (
        "SELECT webhook_publish_test(%(event_id)s, %(event_type)s, %(content_type)s,"
        " %(payload_bytes)s::integer, %(key_id)s, %(sealed)s, %(node)s, %(subscription_id)s)"
    )
    conn.execute("SET ROLE fencepost_dashboard")
    event_id = only(conn, statement, values)
    assert refusal(conn, statement, values | {"subscription_id": None}).sqlstate == "22023"
    found = only(conn, "SELECT id, event_type, only_subscription_id FROM webhook_events")
    assert found == (event_id, "fencepost.test", subscription_id)
