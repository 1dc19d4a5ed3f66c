"""The rollup step: what was committed lately is added to the figures."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from psycopg import Connection

from fencepost.store import rollups
from fencepost.store.session import limit_statements
from worker.link import Link

INTERVAL: Final = timedelta(seconds=5)
"""Between two runs, over all workers."""

FEWEST: Final = 16
"""Transactions in one run, however many rows they brought."""

FIRST: Final = 1024
"""Transactions in the first run of a process."""

STATEMENT_LIMIT: Final = timedelta(minutes=2)
"""Of a run; one that was stopped is made smaller."""

ENOUGH: Final = 50_000
"""Rows for one run: about half a second's work."""


class RollupStep:
    """Count what was committed since the last run, whichever worker made it.

    Transactions can be counted beforehand, the rows that they wrote cannot. So while there is a
    backlog, the share of a run is doubled when the last one brought few rows, and halved when it
    brought many; it is cut when it took too long.

    Args:
        link: its connection.
        keep: how long figures are kept: as long as the deliveries that they tell of.
    """

    def __init__(self, link: Link, *, keep: timedelta) -> None:
        self._link = link
        self._keep = keep
        self._transactions = FIRST
        self._is_behind = False

    def __call__(self) -> float:
        """Make one run; again at once while there is more to do."""
        with self._link.use() as conn:
            idle = rollups.read_idle_time(conn)
            if not self._is_behind and timedelta() <= idle < INTERVAL:
                return (INTERVAL - idle).total_seconds()
            with conn.transaction():
                limit_statements(conn, STATEMENT_LIMIT)
                if not rollups.take_rollup(conn):
                    return INTERVAL.total_seconds()
                self._is_behind = self._run(conn)
        return 0.0 if self._is_behind else INTERVAL.total_seconds()

    def _run(self, conn: Connection[Any]) -> bool:
        """Count, or else fold; tell whether there is more."""
        before = rollups.read_progress(conn).fold_before
        try:
            rolled = rollups.roll_up(conn, transactions=self._transactions)
        except Exception:
            self._transactions = max(FEWEST, self._transactions // 4)
            raise
        if rolled.rows > ENOUGH:
            self._transactions = max(FEWEST, self._transactions // 2)
        if rolled.is_caught_up:
            return before is not None and not rollups.fold(conn, before=before, keep=self._keep)
        if rolled.rows < ENOUGH // 2:
            self._transactions *= 2
        return True
