"""The step that counts dead letters: by what they died of, every so often."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from fencepost.store import dead_groups
from fencepost.store.session import limit_statements
from worker.link import Link

INTERVAL_SECONDS: Final = 10.0

STATEMENT_LIMIT: Final = timedelta(minutes=2)
"""Of a count: a fraction of a second for a million."""


class CountDead:
    """Count, whichever worker counted last.

    Args:
        link: its connection.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    def __call__(self) -> float:
        """Count if it is time; otherwise leave all as it is."""
        with self._link.use() as conn:
            if dead_groups.is_due(conn):
                with conn.transaction():
                    limit_statements(conn, STATEMENT_LIMIT)
                    dead_groups.recount(conn)
        return INTERVAL_SECONDS
