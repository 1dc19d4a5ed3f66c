"""Whom an event meets, and how many events are fanned out together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from factories import make_subscription
from fencepost.globs import to_like
from fencepost.store import outbox


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as conn:
        yield conn


def subscribe(conn: Connection[Any], *globs: str) -> UUID:
    return make_subscription(conn, event_type_patterns=[to_like(glob) for glob in globs])


def publish(conn: Connection[Any], event_type: str, *, only: UUID | None = None) -> None:
    conn.execute(
        "SELECT FROM fencepost_take_in(ARRAY[fencepost_uuid7(fencepost_now())], ARRAY[%s],"
        " ARRAY['application/json'], '{}', ARRAY[2], ARRAY['{}'::bytea], '{}', '{}', '{}', 'n',"
        " %s)",
        (event_type, only),
    )


def fan_out(conn: Connection[Any], *, most: int = 100) -> int:
    """Fan one batch out; give how many events it was."""
    with conn.transaction():
        rows = outbox.within(conn, outbox.lock_outbox(conn, 200), most=most)
        outbox.fan_out(conn, [(row, None) for row in rows], worker_id="w")
    return len(rows)


def met(conn: Connection[Any]) -> list[UUID]:
    rows = conn.execute("SELECT subscription_id FROM webhook_deliveries ORDER BY 1").fetchall()
    return [row[0] for row in rows]


def test_an_event_meets_those_that_want_its_type_once_each(db: Connection[Any]) -> None:
    wanting = [
        subscribe(db, "user.signed_up"),
        subscribe(db, "order.*", "user.signed_up", "user.*"),
        subscribe(db, "*.signed_up"),
        subscribe(db, "*"),
    ]
    subscribe(db, "user.signedXup")
    subscribe(db, "user.signed_u")
    subscribe(db, "order.*")
    removed = subscribe(db, "user.signed_up")
    db.execute(
        "UPDATE webhook_subscriptions SET removed_at = fencepost_now() WHERE id = %s", (removed,)
    )
    publish(db, "user.signed_up")
    fan_out(db)
    assert met(db) == sorted(wanting)


def test_an_underscore_of_a_type_stands_for_itself(db: Connection[Any]) -> None:
    subscribe(db, "user.signed_up", "user.a_*")
    publish(db, "user.signedXup")
    publish(db, "user.abc")
    assert fan_out(db) == 2
    assert met(db) == []


def test_what_was_made_after_the_event_is_not_met(db: Connection[Any]) -> None:
    publish(db, "invoice.paid")
    subscribe(db, "invoice.paid")
    subscribe(db, "*")
    fan_out(db)
    assert met(db) == []


def test_our_own_events_meet_only_who_names_them(db: Connection[Any]) -> None:
    subscribe(db, "*")
    subscribe(db, "*.test")
    wanting = [subscribe(db, "fencepost.test"), subscribe(db, "fencepost.*")]
    chosen = subscribe(db, "invoice.paid")
    publish(db, "fencepost.test", only=chosen)
    fan_out(db)
    assert met(db) == [chosen]
    publish(db, "fencepost.test", only=chosen)
    db.execute("UPDATE webhook_events SET only_subscription_id = NULL")
    fan_out(db)
    assert met(db) == sorted([chosen, *wanting])


def test_a_batch_is_as_large_as_what_its_events_meet_allows(db: Connection[Any]) -> None:
    for _ in range(4):
        subscribe(db, "popular")
    subscribe(db, "rare")
    for event_type in ("rare", "rare", "popular", "rare", "popular", "nobody"):
        publish(db, event_type)
    # 1 + 1 + 4, then 1 + 4 + 0
    assert [fan_out(db, most=6), fan_out(db, most=6), fan_out(db, most=6)] == [3, 3, 0]
    assert len(met(db)) == 11
    # One that meets more than may be made at once is fanned out alone.
    publish(db, "popular")
    publish(db, "rare")
    assert [fan_out(db, most=2), fan_out(db, most=2)] == [1, 1]
