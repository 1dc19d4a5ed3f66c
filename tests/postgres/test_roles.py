"""What each role may do: what its program does, and nothing of anybody else's."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection, sql

from fencepost.embedded import Embedded
from fencepost.store.migrate import migrate

WORKER = {
    "DELETE": {
        "webhook_dead_groups",
        "webhook_failing_subscriptions",
        "webhook_outbox",
        "webhook_replay_outcomes",
        "webhook_rollups",
        "webhook_workers",
    },
    "INSERT": {
        "webhook_dead_groups",
        "webhook_deliveries",
        "webhook_delivery_attempts",
        "webhook_failing_subscriptions",
        "webhook_fenced_writes",
        "webhook_operator_actions",
        "webhook_payloads",
        "webhook_responses",
        "webhook_rollups",
        "webhook_workers",
    },
    # Of no table all columns.
    "UPDATE": set(),
}
"""The worker's rights to change whole tables."""

SECRETS = {
    "webhook_users",
    "webhook_sessions",
    "webhook_login_links",
    "webhook_api_tokens",
    "webhook_login_failures",
    "webhook_responses",
}
"""What only people's programs read."""


def rights(conn: Connection[Any], role: str, right: str) -> set[str]:
    rows = conn.execute(
        "SELECT table_name FROM information_schema.role_table_grants"
        " WHERE grantee = %s AND privilege_type = %s",
        (f"fencepost_{role}", right),
    )
    return {row[0] for row in rows}


@pytest.mark.parametrize("right", sorted(WORKER))
def test_a_worker_changes_what_its_statements_change(
    superuser: Connection[Any], right: str
) -> None:
    assert rights(superuser, "worker", right) == WORKER[right]


def test_a_worker_changes_no_delivery_into_another(superuser: Connection[Any]) -> None:
    rows = superuser.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'webhook_deliveries'"
        " EXCEPT SELECT column_name FROM information_schema.role_column_grants"
        "  WHERE grantee = 'fencepost_worker' AND table_name = 'webhook_deliveries'"
        "    AND privilege_type = 'UPDATE'"
    )
    assert {row[0] for row in rows} == {
        "id", "event_id", "subscription_id", "event_type", "created_at", "position",
    }  # fmt: skip


def test_a_worker_reads_no_people_and_no_answers(superuser: Connection[Any]) -> None:
    assert not rights(superuser, "worker", "SELECT") & SECRETS


def test_nobody_empties_a_table(superuser: Connection[Any]) -> None:
    for role in ("worker", "dashboard", "producer"):
        assert rights(superuser, role, "TRUNCATE") == set()


def test_a_role_runs_only_its_own_functions(superuser: Connection[Any]) -> None:
    allowed = {
        "worker": {"webhook_ensure_partitions"},
        "producer": {
            "webhook_publish", "webhook_publish_sealed", "webhook_publish_sealed_many",
        },
    }  # fmt: skip
    allowed["dashboard"] = allowed["producer"] | {"webhook_publish_test"}
    for role, expected in allowed.items():
        rows = superuser.execute(
            "SELECT proname FROM pg_proc WHERE prosecdef AND proname LIKE 'webhook%%'"
            "   AND has_function_privilege(%s, oid, 'EXECUTE')",
            (f"fencepost_{role}",),
        )
        assert {row[0] for row in rows} == expected


@pytest.fixture
def shop(server: Embedded) -> Iterator[str]:
    """A producers' database: a login that is not ours has tables in the same schema."""
    name = f"shop_{uuid.uuid4().hex}"
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {} OWNER fencepost").format(sql.Identifier(name)))
        with psycopg.connect(server.superuser_url(name)) as inside:
            inside.execute("CREATE TABLE customers (name text, card text)")
        yield name
        conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_it_moves_in_beside_the_producers_tables_and_reads_none_of_them(
    server: Embedded, shop: str
) -> None:
    migrate(server.url().replace("/fencepost?", f"/{shop}?"))
    with psycopg.connect(server.superuser_url(shop)) as conn:
        for role in ("owner", "worker", "dashboard", "producer"):
            row = conn.execute(
                "SELECT has_table_privilege(%s, 'customers', 'SELECT')", (f"fencepost_{role}",)
            ).fetchone()
            assert row == (False,)
