"""What a claim costs in front of a small backlog and of a large one, all due and all sleeping."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from runs import BenchmarkError, Size, quiet, run_alone, tell
from section import Goal, Section

from fencepost.bench import load, usage
from fencepost.bench.database import Database, own_database
from fencepost.bench.plan import Plan
from fencepost.bench.receivers import Receivers
from fencepost.store.leases import FIRST, Claims, Room, claim_due

_CLAIMS: Final = 40
_SLOTS: Final = 200
_DUE: Final = _CLAIMS * _SLOTS + 2_000
_LEASE: Final = timedelta(hours=1)

_METHOD: Final = """\
Forty claims of 200, each committed; the middle one. What is due is so in no order, so that each row
of a claim lies on a page of its own. The first claims in front of a large backlog meet pages that
no claim has touched, which PostgreSQL reads, and writes whole to the WAL once after each
checkpoint. Later ones meet pages that earlier ones have touched: so it is for most of a drain."""


def measure(size: Size) -> Section:
    """Claim and commit forty batches of 200, and see what the median one costs.

    Each row is claimed once, as in a drain: claims that are rolled back would find the same
    rows again, in memory, and leave no dead entries behind.
    """
    large = size.pick(1_000_000, 10_000_000)
    small_ms, small_cpu = _small()
    rows: list[list[object]] = [["all due", _DUE, small_ms, small_cpu, 1.0]]
    goals = []
    with _database() as db:
        tell(f"making {large:,} sleeping deliveries")
        load.add_waiting(db, large, show=quiet)
        load.add_waiting(db, _DUE, due_in=timedelta(hours=-2), show=quiet)
        for what in ("all sleeping but these", "all due"):
            ms, cpu = _claims(db)
            rows.append([what, large, ms, cpu, ms / small_ms])
            goals.append(Goal.at_most(f"{what}: {large:,} : {_DUE:,}", ms / small_ms, 1.5, "times"))
            with db.connect("owner") as conn:
                conn.execute(
                    "CREATE OR REPLACE FUNCTION fencepost_now() RETURNS timestamptz LANGUAGE sql"
                    " STABLE PARALLEL SAFE AS 'SELECT clock_timestamp() + interval ''2 days'''"
                )
        ms, cpu = _claims(db, after=size.pick(80_000, 800_000))
        rows.append(["all due, later", large, ms, cpu, ms / small_ms])
    return Section(
        title="The cost of a claim",
        goals=goals,
        method=_METHOD,
        command="python benchmarks/claim_cost.py [--full]",
        columns=("backlog", "deliveries", "ms per claim of 200", "PostgreSQL CPU µs", "times"),
        rows=rows,
    )  # fmt: skip


def _small() -> tuple[float, float]:
    with _database() as db:
        load.add_waiting(db, _DUE, due_in=timedelta(hours=-2), show=quiet)
        return _claims(db)


@contextmanager
def _database() -> Iterator[Database]:
    """Make a database with a hundred subscriptions, whose endpoints nobody calls."""
    with own_database(Plan(), say=tell) as db:
        load.subscribe(db, Plan(), Receivers("none", 60000, 60000, 0.0))
        yield db


def _settle_down(db: Database) -> None:
    """What loading left behind is not what a claim costs."""
    with db.connect("owner") as conn:
        conn.execute("VACUUM (ANALYZE) webhook_deliveries, webhook_delivery_attempts")


def _claims(db: Database, *, after: int = 0) -> tuple[float, float]:
    """Measure, once so many more were claimed; else after one claim, which makes the plans."""
    if not after:
        _settle_down(db)
    with db.connect("worker") as conn:
        server, cursor = usage.postmaster(conn.info.backend_pid) or 0, FIRST
        for _ in range(max(1, after // _SLOTS)):
            cursor = _claim(conn, cursor).cursor
        used, taken, times = usage.cpu_seconds_of_all(server), 0, []
        for _ in range(_CLAIMS - 1):
            began = time.perf_counter()
            found = _claim(conn, cursor)
            times.append((time.perf_counter() - began) * 1000)
            cursor, taken = found.cursor, taken + len(found.claimed)
        used = usage.cpu_seconds_of_all(server) - used
    if taken < (_CLAIMS - 1) * _SLOTS * 0.9:
        raise BenchmarkError(f"the claims found {taken} deliveries only")
    return statistics.median(times), used / taken * 1e6


def _claim(conn: Connection[Any], cursor: UUID) -> Claims:
    room = Room(slots=_SLOTS, share=32)
    return claim_due(conn, worker_id="bench", lease=_LEASE, room=room, cursor=cursor)


if __name__ == "__main__":
    run_alone(measure)
