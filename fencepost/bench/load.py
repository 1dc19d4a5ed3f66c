"""Subscriptions and events for a benchmark, made by the doors that everybody uses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import islice
from typing import Any, Final
from uuid import UUID

from psycopg import Connection

from fencepost.bench.database import Database
from fencepost.bench.plan import Plan
from fencepost.bench.receivers import Receivers
from fencepost.producer import NewEvent, Producer
from fencepost.publish import publish_sealed_many
from fencepost.settings import Settings
from fencepost.store import outbox
from fencepost.store.queries import load
from fencepost.store.subscriptions import add_subscription
from fencepost.subscription_spec import read_spec

_SQL: Final = load("bench.sql")
TOMORROW: Final = timedelta(days=1)

_AT_ONCE: Final = 1000
_FANNED_OUT_AT_ONCE: Final = 200


def subscribe(db: Database, plan: Plan, to: Receivers) -> dict[str, UUID]:
    """Make the plan's subscriptions, each for an event type of its own; give names and ids."""
    keyring, made = db.settings.endpoint_keyring(), {}
    with db.connect("dashboard") as conn, conn.transaction():
        for name in plan.names:
            spec = read_spec(
                {"name": name, "url": to.url(name), "event_types": [f"bench.{name}"]},
                allow_http=True,
                allow_networks=db.settings.allow_networks,
            )
            made[name] = add_subscription(conn, keyring, spec, actor="bench")[0].id
    return made


def pause_all(db: Database) -> None:
    """Let deliveries wait until ``resume_all``."""
    with db.connect("owner") as conn:
        conn.execute(_SQL.pause_all)


def resume_all(db: Database) -> None:
    """Let everything that waits go at the same moment."""
    with db.connect("owner") as conn:
        conn.execute(_SQL.resume_all)


def add_due(
    db: Database, plan: Plan, count: int, *, start: int = 0, show: Callable[[int], None]
) -> None:
    """Publish events and fan them out, as producers and a worker would.

    Args:
        db: where to.
        plan: invents them.
        count: how many.
        start: number of the first.
        show: told how many there are by now.
    """
    producer = Producer.of(db.settings)
    events = plan.events(count, start=start)
    with db.connect("producer") as door, db.connect("worker") as conn:
        done = 0
        while batch := [NewEvent(*event) for event in islice(events, _AT_ONCE)]:
            with door.transaction():
                publish_sealed_many(door, batch, producer=producer)
            while _fan_out(conn):
                pass
            done += len(batch)
            show(done)


def add_waiting(
    db: Database, count: int, *, due_in: timedelta = TOMORROW, show: Callable[[int], None]
) -> None:
    """Add deliveries without payloads, spread over all subscriptions: to wait, not to be sent.

    Args:
        db: where to.
        count: how many.
        due_in: when the first is due; the others follow within an hour.
        show: told how many there are by now.
    """
    with db.connect("owner") as conn:
        for done in range(0, count, 50_000):
            batch = min(50_000, count - done)
            conn.execute(_SQL.add_waiting, {"count": batch, "start": done, "due_in": due_in})
            show(done + batch)


def publish_many(
    conn: Connection[Any], settings: Settings, plan: Plan, count: int, *, start: int, batch: int
) -> None:
    """Publish events as a producer does, in transactions of ``batch``, and no more."""
    producer = Producer.of(settings)
    events = plan.events(count, start=start)
    while some := [NewEvent(*event) for event in islice(events, batch)]:
        with conn.transaction():
            publish_sealed_many(conn, some, producer=producer)


def _fan_out(conn: Connection[Any]) -> bool:
    """Fan one batch out; tell whether there may be more."""
    with conn.transaction():
        rows = outbox.lock_outbox(conn, _FANNED_OUT_AT_ONCE)
        outbox.fan_out(conn, [(row, None) for row in rows], worker_id="bench")
    return len(rows) == _FANNED_OUT_AT_ONCE
