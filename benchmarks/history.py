"""Make up a year of history in a migrated, empty database: quickly, and without a contradiction.

``python benchmarks/history.py --deliveries 1000000``, with the settings of the programs that are to
show it: FENCEPOST_DATABASE_URL, FENCEPOST_KEYS, FENCEPOST_ENDPOINT_KEYS. Nothing of it was ever
sent; whoever runs a worker on it sends what is still to be sent.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from history_figures import DAY
from history_load import Writer, bulk
from history_people import write_people
from history_places import make_places
from history_plan import Plan
from psycopg import Connection
from runs import BenchmarkError, tell

from fencepost.errors import FencepostError
from fencepost.settings import Settings
from fencepost.store.dead_groups import recount
from fencepost.store.pool import connect

_DAYS_AHEAD: Final = 366
"""As far as partitions can be made from one day."""


def make_history(
    conn: Connection[Any], plan: Plan, settings: Settings, *, show: Callable[[int], None]
) -> int:
    """Write a history; give how many deliveries it has.

    ``fencepost/store/sql/invariants.sql`` finds nothing afterwards, and the figures are those that
    a worker would have kept.

    Args:
        conn: as the tables' owner, in autocommit; the database migrated and empty.
        plan: what it consists of.
        settings: with the keys that payloads and endpoints are sealed with.
        show: told how many deliveries there are by now.

    Raises:
        BenchmarkError: there is history already.
    """
    if conn.execute("SELECT FROM webhook_subscriptions LIMIT 1").fetchone():
        raise BenchmarkError("this database has subscriptions: make one of its own")
    _make_partitions(conn, plan)
    writer = Writer(plan, settings.keyring())
    with bulk(conn):
        with conn.transaction():
            make_places(conn, plan, settings.endpoint_keyring())
        made = writer.write(conn, show=show)
        with conn.transaction():
            write_people(conn, plan, writer.fates)
            _note_counted(conn, plan, writer)
    conn.execute("VACUUM (ANALYZE)")
    with conn.transaction():
        recount(conn)
    return made


def _make_partitions(conn: Connection[Any], plan: Plan) -> None:
    """Make the trail's partitions as they were at the time: the clock is told that it is then."""
    (clock,) = _one(conn, "SELECT pg_get_functiondef('fencepost_now'::regproc)")
    for day in range(0, plan.days + 1, _DAYS_AHEAD):
        with conn.transaction():
            seconds = (plan.start + day * DAY) / 1e6
            _replace_clock(conn, f"to_timestamp({seconds:f})")
            conn.execute(
                "SELECT webhook_ensure_partitions(%s::integer)", (min(plan.days + 1, _DAYS_AHEAD),)
            )
            conn.execute(clock)
    conn.execute("SELECT webhook_ensure_partitions()")


def continue_clock(conn: Connection[Any]) -> None:
    """Let the database's clock go on from where the history ends, however long ago that was made.

    Args:
        conn: as the tables' owner.
    """
    (past,) = _one(conn, "SELECT (clock_timestamp() - max(beat_at))::text FROM webhook_workers")
    _replace_clock(conn, f"clock_timestamp() - interval ''{past}''")


def _replace_clock(conn: Connection[Any], reading: str) -> None:
    conn.execute(
        "CREATE OR REPLACE FUNCTION fencepost_now() RETURNS timestamptz LANGUAGE sql STABLE"
        f" PARALLEL SAFE AS 'SELECT {reading}'".encode()
    )


def _note_counted(conn: Connection[Any], plan: Plan, writer: Writer) -> None:
    """Say that all of it is counted, and where the outbox goes on."""
    conn.execute(
        "UPDATE webhook_rollup_progress SET pending = '{}', ran_at = fencepost_now(),"
        " upto = pg_snapshot_xmax(pg_current_snapshot())::text::bigint,"
        " begun_at = to_timestamp(%s), as_of = to_timestamp(%s), folded_upto = to_timestamp(%s)",
        (plan.start / 1e6, plan.until / 1e6, writer.folded_upto / 1e6),
    )
    conn.execute(f"ALTER TABLE webhook_outbox ALTER COLUMN id RESTART WITH {writer.position + 1}")


def _one(conn: Connection[Any], statement: str) -> tuple[Any, ...]:
    found = conn.execute(statement.encode()).fetchone()
    if found is None:
        raise LookupError("no row")
    return tuple(found)


def main() -> int:
    """Read the command line, and write a history."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--deliveries", type=int, default=1_000_000)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=365)
    chosen = parser.parse_args()
    plan = Plan(
        deliveries=chosen.deliveries,
        subscriptions=chosen.subscriptions,
        days=chosen.days,
        until=time.time_ns() // 1000,
    )
    try:
        settings = Settings.load(require=("database_url", "keys", "endpoint_keys"))
        url = settings.database_url or ""
        with connect(url, role="owner", schema=settings.schema, name="fencepost history") as conn:
            conn.execute("SET statement_timeout = 0")
            began = time.monotonic()
            made = make_history(
                conn, plan, settings, show=lambda done: tell(f"{done:,} deliveries")
            )
            tell(f"{made:,} deliveries in {time.monotonic() - began:.0f} s")
    except FencepostError as error:
        tell(f"history: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
