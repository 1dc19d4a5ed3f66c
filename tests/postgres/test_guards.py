"""The database refuses what the table of moves does not have, for its owner and a superuser too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from fencepost.states import FINISHED, HELD, WAITING, Fact, State, legal_moves
from fencepost.store import guards

DELIVERY = """
INSERT INTO webhook_deliveries
       (id, event_id, subscription_id, event_type, current_state, seq, next_attempt_at)
VALUES (fencepost_uuid7(fencepost_now()), gen_random_uuid(), gen_random_uuid(), 'invoice.paid',
        'ENCRYPTED', 2, fencepost_now())
RETURNING id
"""
# A way from the start to each state, by legal moves only.
WAYS = {
    State.RECEIVED: (),
    State.ENCRYPTED: (),
    State.LEASED: (State.LEASED,),
    State.ATTEMPTED: (State.LEASED, State.ATTEMPTED),
    State.RETRIED: (State.LEASED, State.RETRIED),
    State.DELIVERED: (State.LEASED, State.ATTEMPTED, State.DELIVERED),
    State.DLQ: (State.LEASED, State.DLQ),
}


@pytest.fixture
def owner(superuser: Connection[Any]) -> Iterator[Connection[Any]]:
    """A superuser in a transaction that is rolled back: nobody has more rights."""
    with superuser.transaction(force_rollback=True):
        yield superuser


def _put(conn: Connection[Any], state: State) -> UUID:
    """Make a delivery and bring it to ``state``."""
    if state is State.RECEIVED:
        sql = DELIVERY.replace("'ENCRYPTED', 2, fencepost_now()", "'RECEIVED', 1, NULL")
        row = conn.execute(sql).fetchone()
    else:
        row = conn.execute(DELIVERY).fetchone()
    assert row is not None
    at: State = State.ENCRYPTED if state is not State.RECEIVED else state
    for to in WAYS[state]:
        _move(conn, row[0], at, to, legal_moves()[at, to])
        at = to
    return UUID(str(row[0]))


def _move(conn: Connection[Any], id_: UUID, at: State, to: State, rows: int) -> None:
    """Change the state and everything that goes with it, as a correct statement would."""
    conn.execute(
        """
        UPDATE webhook_deliveries
           SET current_state = %(to)s, seq = seq + %(rows)s,
               fencing_token = fencing_token + %(token)s,
               attempt_count = attempt_count + %(attempt)s,
               worker_id = CASE WHEN %(held)s THEN coalesce(worker_id, 'w') END,
               lease_expires_at = CASE WHEN %(held)s THEN fencepost_now() END,
               next_attempt_at = CASE WHEN %(unfinished)s THEN fencepost_now() END,
               dead_at = CASE WHEN %(dead)s THEN fencepost_now() END,
               dead_reason = CASE WHEN %(dead)s THEN 'test' END
         WHERE id = %(id)s
        """,
        {
            "id": id_,
            "to": to,
            "rows": rows,
            "token": int(to is State.LEASED and at is not State.LEASED),
            "attempt": int(to is State.ATTEMPTED and at is not State.ATTEMPTED),
            "held": to in HELD,
            "unfinished": to in WAITING | HELD,
            "dead": to is State.DLQ,
        },
    )


@pytest.mark.parametrize(("at", "to"), list(product(State, State)))
def test_every_pair_of_states_is_judged_as_the_table_judges_it(
    owner: Connection[Any], at: State, to: State
) -> None:
    id_ = _put(owner, at)
    rows = legal_moves().get((at, to))
    if rows is not None:
        _move(owner, id_, at, to, rows)
        return
    for step in (1, 2):
        with (
            pytest.raises(psycopg.errors.CheckViolation, match="illegal move"),
            owner.transaction(),
        ):
            _move(owner, id_, at, to, step)


@pytest.mark.parametrize(
    ("state", "change"),
    [
        (State.ENCRYPTED, "fencing_token = fencing_token + 1"),
        (State.LEASED, "fencing_token = fencing_token + 1"),
        (State.LEASED, "fencing_token = fencing_token - 1"),
        (State.RETRIED, "attempt_count = attempt_count + 1"),
        (State.ATTEMPTED, "attempt_count = attempt_count - 1"),
        (State.LEASED, "worker_id = 'another'"),
        (State.LEASED, "seq = seq + 1"),
        (State.LEASED, "seq = seq - 1"),
        (State.DELIVERED, "seq = seq + 2"),
        (State.ENCRYPTED, "id = gen_random_uuid()"),
        (State.ENCRYPTED, "event_id = gen_random_uuid()"),
        (State.ENCRYPTED, "subscription_id = gen_random_uuid()"),
        (State.ENCRYPTED, "event_type = 'another'"),
        (State.ENCRYPTED, "created_at = created_at - interval '1 s'"),
    ],
)
def test_numbers_and_names_do_not_change_by_themselves(
    owner: Connection[Any], state: State, change: str
) -> None:
    id_ = _put(owner, state)
    with pytest.raises(psycopg.errors.CheckViolation, match="illegal move"):
        owner.execute(f"UPDATE webhook_deliveries SET {change} WHERE id = %s", (id_,))


@pytest.mark.parametrize(
    ("state", "change", "constraint"),
    [
        (State.LEASED, "lease_expires_at = NULL", "held_has_lease"),
        (State.ENCRYPTED, "lease_expires_at = fencepost_now()", "held_has_lease"),
        (State.ENCRYPTED, "next_attempt_at = NULL", "unfinished_has_due"),
        (State.DLQ, "dead_reason = NULL", "dead_says_why"),
        (State.ENCRYPTED, "budget_start = 1", "budget_in_count"),
        (State.ENCRYPTED, "discarded_at = fencepost_now()", "discarded_is_dead"),
        (State.ENCRYPTED, "lane = 3", "lane_known"),
    ],
)
def test_what_belongs_to_a_state_must_be_there(
    owner: Connection[Any], state: State, change: str, constraint: str
) -> None:
    id_ = _put(owner, state)
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        owner.execute(f"UPDATE webhook_deliveries SET {change} WHERE id = %s", (id_,))
    assert caught.value.diag.constraint_name == constraint


def test_a_heartbeat_is_no_move(owner: Connection[Any]) -> None:
    id_ = _put(owner, State.ATTEMPTED)
    owner.execute(
        "UPDATE webhook_deliveries SET lease_expires_at = fencepost_now() WHERE id = %s", (id_,)
    )


@pytest.mark.parametrize("state", sorted(set(State) - {State.RECEIVED, State.ENCRYPTED}))
def test_a_delivery_begins_at_the_beginning(owner: Connection[Any], state: State) -> None:
    sql = DELIVERY.replace("'ENCRYPTED'", f"'{state}'")
    with pytest.raises(psycopg.errors.CheckViolation, match="cannot begin"):
        owner.execute(sql)


@pytest.mark.parametrize("state", sorted(set(State) - FINISHED))
def test_a_delivery_that_is_not_finished_is_not_deleted(
    owner: Connection[Any], state: State
) -> None:
    id_ = _put(owner, state)
    with pytest.raises(psycopg.errors.CheckViolation, match="only a finished one"):
        owner.execute("DELETE FROM webhook_deliveries WHERE id = %s", (id_,))


def _trail_row(conn: Connection[Any]) -> UUID:
    row = conn.execute(
        "INSERT INTO webhook_delivery_attempts (delivery_id, seq, state)"
        " VALUES (fencepost_uuid7(fencepost_now()), 1, 'RECEIVED') RETURNING delivery_id"
    ).fetchone()
    assert row is not None
    return UUID(str(row[0]))


def _partitions(conn: Connection[Any]) -> list[str]:
    rows = conn.execute(
        "SELECT inhrelid::regclass::text FROM pg_inherits"
        " WHERE inhparent = 'webhook_delivery_attempts'::regclass"
    ).fetchall()
    assert rows
    return [row[0] for row in rows]


@pytest.mark.parametrize("replica", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {table} SET state = 'DELIVERED' WHERE delivery_id = %s",
        "UPDATE {table} SET delivery_id = gen_random_uuid() WHERE delivery_id = %s",
        "DELETE FROM {table} WHERE delivery_id = %s",
        (
            "INSERT INTO {table} (delivery_id, seq, state) VALUES (%s, 1, 'DLQ')"
            " ON CONFLICT (delivery_id, seq) DO UPDATE SET state = excluded.state"
        ),
    ],
)
def test_a_trail_row_is_never_changed(
    owner: Connection[Any], statement: str, *, replica: bool
) -> None:
    id_ = _trail_row(owner)
    home = owner.execute(
        "SELECT tableoid::regclass::text FROM webhook_delivery_attempts WHERE delivery_id = %s",
        (id_,),
    ).fetchone()
    assert home is not None
    if replica:
        owner.execute("SET LOCAL session_replication_role = replica")
    for table in ("webhook_delivery_attempts", home[0]):
        with (
            pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"),
            owner.transaction(),
        ):
            owner.execute(statement.format(table=table), (id_,))


def test_neither_the_trail_nor_a_partition_is_truncated(owner: Connection[Any]) -> None:
    for table in ("webhook_delivery_attempts", *_partitions(owner)):
        with (
            pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"),
            owner.transaction(),
        ):
            owner.execute(f"TRUNCATE {table}")


def test_the_same_seq_is_not_written_twice(owner: Connection[Any]) -> None:
    id_ = _trail_row(owner)
    with pytest.raises(psycopg.errors.UniqueViolation):
        owner.execute(
            "INSERT INTO webhook_delivery_attempts (delivery_id, seq, state)"
            " VALUES (%s, 1, 'RECEIVED')",
            (id_,),
        )


def test_guards_cannot_be_switched_off_by_a_replication_role(owner: Connection[Any]) -> None:
    rows = owner.execute(
        "SELECT tgrelid::regclass::text, tgname, tgenabled FROM pg_trigger"
        " WHERE NOT tgisinternal AND tgrelid::regclass::text LIKE 'webhook_deliver%'"
    ).fetchall()
    assert len(rows) >= 3 + 2 * (1 + len(_partitions(owner)))
    assert [row for row in rows if row[2] not in ("A", b"A")] == []


def test_the_catalog_holds_the_table_of_moves(owner: Connection[Any]) -> None:
    row = owner.execute(
        "SELECT pg_get_triggerdef(oid) FROM pg_trigger"
        " WHERE tgname = 'webhook_deliveries_legal_move'"
    ).fetchone()
    assert row is not None
    assert sorted(re.findall(r"'([A-Z]+>[A-Z]+\+\d)'", row[0])) == guards.moves_in_sql()
    checks = dict(
        owner.execute(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE conname IN ('state_known', 'trail_state_known', 'held_has_lease')"
            "   AND conrelid::regclass::text IN ('webhook_deliveries', 'webhook_delivery_attempts')"
        ).fetchall()
    )
    assert set(re.findall(r"'([A-Z_]+)'", checks["state_known"])) == set(State)
    assert set(re.findall(r"'([A-Z_]+)'", checks["trail_state_known"])) == {*State, *Fact}
    assert set(re.findall(r"'([A-Z_]+)'", checks["held_has_lease"])) == HELD


ROLES = ("fencepost_worker", "fencepost_dashboard", "fencepost_producer")


@pytest.mark.parametrize("role", ROLES)
def test_no_role_may_touch_what_the_trail_says(owner: Connection[Any], role: str) -> None:
    for table in ("webhook_delivery_attempts", *_partitions(owner)):
        rights = {
            right
            for right in ("UPDATE", "DELETE", "TRUNCATE")
            for row in owner.execute(
                "SELECT has_table_privilege(%s, %s, %s)", (role, table, right)
            ).fetchall()
            if row[0]
        }
        assert rights == set()


def test_a_producer_may_only_publish(owner: Connection[Any]) -> None:
    rows = owner.execute(
        "SELECT relname FROM pg_class WHERE relname LIKE 'webhook%%' AND relkind IN ('r', 'p')"
        " AND has_table_privilege('fencepost_producer', oid, 'SELECT, INSERT, UPDATE, DELETE')"
    ).fetchall()
    assert rows == []
