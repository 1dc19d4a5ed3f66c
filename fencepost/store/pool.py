"""Connections to PostgreSQL: how they are opened, and what their errors become."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import Connection
from psycopg_pool import PoolTimeout

from fencepost.errors import DatabaseUnavailableError
from fencepost.store.session import STATEMENT_LIMIT, Role, prepare

# A dead network is noticed within seconds; the server forgets a dead client as fast.
_CONNECTION: dict[str, Any] = {
    "connect_timeout": 3,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "client_encoding": "utf8",  # whatever the database's is: arrays go as bytes of ours
}


def connect(
    url: str,
    *,
    role: Role,
    schema: str = "public",
    name: str = "fencepost",
    statement_limit: timedelta = STATEMENT_LIMIT,
) -> Connection[Any]:
    """Open a connection that acts as ``fencepost_<role>`` in Fencepost's schema.

    It is in autocommit: each statement is its own transaction, and a longer one is
    begun with ``conn.transaction()`` by whoever needs it.

    Args:
        url: a libpq connection string; its login must be a member of the role.
        role: whose rights to take.
        schema: where the tables live.
        name: shown in ``pg_stat_activity``.
        statement_limit: no statement may take longer; behind a pooler, the login's.

    Raises:
        DatabaseUnavailableError: the server does not answer.
        SchemaError: it answers, and was not migrated.
        SettingsError: it answers, and refuses this login or this role, or is behind a pooler
            and the login does not bring what a session must.
    """
    with errors_as_ours():
        conn = psycopg.connect(url, autocommit=True, application_name=name, **_CONNECTION)
    try:
        with errors_as_ours():
            prepare(conn, role=role, schema=schema, statement_limit=statement_limit)
    except BaseException:
        conn.close()
        raise
    return conn


@contextmanager
def errors_as_ours() -> Iterator[None]:
    """Turn psycopg's 'no server' errors into ours; everything else passes through.

    Raises:
        DatabaseUnavailableError: the connection is gone, or none could be had.
    """
    try:
        yield
    except PoolTimeout as error:
        raise DatabaseUnavailableError("No database connection came free in time.") from error
    except psycopg.Error as error:
        if is_outage(error):
            raise DatabaseUnavailableError(
                f"The database cannot be reached: {_one_line(error)}"
            ) from error
        raise


def is_outage(error: psycopg.Error) -> bool:
    """Tell whether an error means that the server is away, and not that a statement was wrong.

    Connection failures carry no SQLSTATE; class 08 is a connection exception, 57P a
    server that is shutting down or starting, 53 a server out of connections or disk.
    """
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate
    return state is None or state[:2] in {"08", "53"} or state[:3] == "57P"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
