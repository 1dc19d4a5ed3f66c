"""Subscriptions and events for a benchmark, made by the doors that everybody uses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from psycopg import Connection

from fencepost.bench.database import Database
from fencepost.bench.plan import Plan
from fencepost.bench.producing import producing
from fencepost.bench.receivers import Receivers
from fencepost.store import outbox
from fencepost.store.queries import load
from fencepost.store.subscriptions import add_subscription
from fencepost.subscription_spec import read_spec

_SQL: Final = load("bench.sql")
TOMORROW: Final = timedelta(days=1)

_AT_ONCE: Final = 1000
_TICK: Final = 0.01


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


def add_due(
    db: Database, plan: Plan, count: int, *, start: int = 0, show: Callable[[int], None]
) -> None:
    """Publish events and fan them out, as producers and a worker would, both at once.

    Args:
        db: where to; no worker runs there.
        plan: invents them.
        count: how many.
        start: number of the first.
        show: told how many there are by now.

    Raises:
        ProducerError: the producer failed.
    """
    done, pause = 0, threading.Event()
    with (
        producing(db, plan, count, start=start, batch=_AT_ONCE) as producer,
        db.connect("worker") as conn,
    ):
        while done < count:
            made = _fan_out(conn)
            if not made:
                producer.check()
                pause.wait(_TICK)
            done += made
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


def bury(db: Database, *, show: Callable[[int], None]) -> None:
    """Bring everything that waits into the DLQ; no worker runs there.

    Args:
        db: where.
        show: told how many there are by now.
    """
    done = 0
    with db.connect("owner") as conn:
        while True:
            with conn.transaction():
                moved = conn.execute(_SQL.lease_waiting, {"limit": 20_000}).rowcount
                conn.execute(_SQL.bury_leased)
            if not moved:
                return
            done += moved
            show(done)


def _fan_out(conn: Connection[Any]) -> int:
    """Fan one batch out; give how many events it had."""
    with conn.transaction():
        rows = outbox.lock_outbox(conn, _AT_ONCE)
        outbox.fan_out(conn, [(row, None) for row in rows], worker_id="bench")
    return len(rows)
