"""What a worker costs whose every slot waits for an answer that does not come."""

from __future__ import annotations

import os
import threading
from typing import Any, Final

from psycopg import Connection
from runs import TRANSPORTS, Section, Size, quiet, run_alone, tell

from fencepost.bench import load
from fencepost.bench.database import own_database
from fencepost.bench.plan import Plan
from fencepost.bench.receivers import Receivers, receivers
from fencepost.bench.workers import workers
from fencepost.errors import SettingsError

_SLOTS: Final = {"requests": 64, "curl": 1000}
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
    rows = [row for transport in TRANSPORTS if (row := _hang(transport)) is not None]
    return Section(
        title="Slow receivers",
        target="curl: 1,000 requests hanging at once in one process under 250 MB, no lease lost.",
        command="python benchmarks/slow_receivers.py",
        columns=("transport", "hanging at once", "lease s", "held s", "memory MB", "leases lost"),
        rows=rows,
        figures={f"hanging {row[0]} MB": float(str(row[4])) for row in rows},
    )


def _hang(transport: str) -> list[object] | None:
    slots = _SLOTS[transport]
    os.environ |= {"FENCEPOST_LEASE_SECONDS": str(_LEASE), "FENCEPOST_CONCURRENCY": str(slots)}
    plan = Plan(transport=transport, subscriptions=slots // 2, hanging=0.1)
    try:
        with own_database(plan, say=tell) as db, receivers(plan, db.folder) as to:
            nowhere = Receivers(to.kind, to.hanging_port, to.hanging_port, 0.0)
            load.subscribe(db, plan, nowhere)
            wanted = Plan(subscriptions=slots // 2)
            load.add_due(db, wanted, slots, show=quiet)
            with workers(db, 1) as at_work, db.connect("owner") as conn:
                most, pause = 0, threading.Event()
                for _ in range(int(_HELD_FOR / 0.1)):
                    most = max(most, _count(conn, _HANGING))
                    pause.wait(0.1)
                lost = _count(conn, _LOST)
                memory = at_work.peak_memory_mb() or 0.0
    except SettingsError as error:
        tell(str(error))
        return None
    finally:
        del os.environ["FENCEPOST_LEASE_SECONDS"], os.environ["FENCEPOST_CONCURRENCY"]
    return [transport, most, _LEASE, _HELD_FOR, memory, lost]


def _count(conn: Connection[Any], query: str) -> int:
    row = conn.execute(query.encode()).fetchone()
    return 0 if row is None else int(row[0])


if __name__ == "__main__":
    run_alone(measure)
