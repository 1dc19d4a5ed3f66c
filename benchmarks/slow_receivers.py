"""What a worker costs whose every slot waits for an answer that does not come."""

from __future__ import annotations

import threading
from typing import Any, Final

from psycopg import Connection
from runs import TRANSPORTS, Size, environment, quiet, run_alone, tell
from section import Goal, Section

from fencepost.bench import load
from fencepost.bench.database import own_database
from fencepost.bench.plan import Plan
from fencepost.bench.receivers import Receivers, receivers
from fencepost.bench.workers import workers

_SLOTS: Final = {"requests": 64, "curl": 1000}
_MOST_MB: Final = 250
_LEASE: Final = 3
_HELD_FOR: Final = 9.0
"""Seconds: three leases."""
_HANGING: Final = "SELECT count(*) FROM webhook_deliveries WHERE current_state = 'ATTEMPTED'"
_LOST: Final = """
    SELECT (SELECT count(*) FROM webhook_fenced_writes) + count(*)
      FROM webhook_delivery_attempts WHERE state = 'LEASE_EXPIRED'
"""


def measure(size: Size) -> Section:
    """Fill all slots with requests that hang, for longer than a lease lasts."""
    del size
    rows = [_hang(transport) for transport in TRANSPORTS]
    most, _, _, memory, lost = next(row[1:] for row in rows if row[0] == "curl")
    return Section(
        title="Slow receivers",
        goals=[
            Goal.at_least("curl, hanging at once", most, _SLOTS["curl"], "requests"),
            Goal.at_most("curl, memory of the process", memory, _MOST_MB, "MB"),
            Goal.at_most("curl, leases lost", lost, 0, "leases"),
        ],
        method="One worker, every slot of which waits for an answer that does not come, for three"
        " leases: each lease must be renewed again and again. Memory is the most it has occupied.",
        command="python benchmarks/slow_receivers.py",
        columns=("transport", "hanging at once", "lease s", "held s", "memory MB", "leases lost"),
        rows=rows,
    )


def _hang(transport: str) -> tuple[str, int, int, float, float, int]:
    slots = _SLOTS[transport]
    plan = Plan(transport=transport, subscriptions=slots // 2, hanging=0.1)
    with (
        environment(FENCEPOST_LEASE_SECONDS=_LEASE, FENCEPOST_CONCURRENCY=slots),
        own_database(plan, say=tell) as db,
        receivers(plan, db.folder) as to,
    ):
        nowhere = Receivers(to.kind, to.hanging_port, to.hanging_port, 0.0)
        load.subscribe(db, plan, nowhere)
        load.add_due(db, Plan(subscriptions=slots // 2), slots, show=quiet)
        with workers(db, 1) as at_work, db.connect("owner") as conn:
            most, pause = 0, threading.Event()
            for _ in range(int(_HELD_FOR / 0.1)):
                most = max(most, _count(conn, _HANGING))
                pause.wait(0.1)
            lost = _count(conn, _LOST)
            memory = at_work.peak_memory_mb() or 0.0
    return transport, most, _LEASE, _HELD_FOR, memory, lost


def _count(conn: Connection[Any], query: str) -> int:
    row = conn.execute(query.encode()).fetchone()
    return 0 if row is None else int(row[0])


if __name__ == "__main__":
    run_alone(measure)
