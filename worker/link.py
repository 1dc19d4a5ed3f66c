"""A step's own connection, opened when it is needed and again when it was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import Connection

from fencepost.errors import DatabaseUnavailableError
from fencepost.store.pool import connect, is_outage
from fencepost.store.session import STATEMENT_LIMIT, Role

OUTLIVED = (
    # "cached plan must not change result type": a migration changed a column under a prepared
    # statement, which then fails for ever; a fresh connection prepares it anew.
    psycopg.errors.FeatureNotSupported,
    # What was the primary is a standby now; a fresh connection may find the new primary.
    psycopg.errors.ReadOnlySqlTransaction,
)
"""Errors that stay as long as the connection does."""


class Link:
    """One connection for one thread, in autocommit.

    Args:
        url: of the database.
        role: whose rights it takes.
        schema: where the tables live.
        name: shown in ``pg_stat_activity``.
        statement_limit: no statement may take longer; behind a pooler, the login's.
    """

    def __init__(
        self,
        url: str,
        *,
        role: Role = "worker",
        schema: str = "public",
        name: str,
        statement_limit: timedelta = STATEMENT_LIMIT,
    ) -> None:
        self._open: Callable[[], Connection[Any]] = lambda: connect(
            url, role=role, schema=schema, name=name, statement_limit=statement_limit
        )
        self._conn: Connection[Any] | None = None
        self.opened = 0
        """How often it was opened: a rise tells a step that time was lost."""

    @contextmanager
    def use(self) -> Iterator[Connection[Any]]:
        """Lend the connection.

        Raises:
            DatabaseUnavailableError: there is none to be had, or it broke while in use;
                what was not committed did not happen, what was being committed may have.
        """
        conn = self._conn
        if conn is None or conn.closed:
            conn = self._conn = self._open()
            self.opened += 1
        try:
            yield conn
        except psycopg.Error as error:
            if conn.closed or conn.broken or is_outage(error):
                self.close()
                text = " ".join(str(error).split())
                raise DatabaseUnavailableError(f"The database went away: {text}") from error
            if isinstance(error, OUTLIVED):
                self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None
