"""Connections to PostgreSQL: how they are opened, and what their errors become."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import psycopg
from psycopg import Connection, sql
from psycopg.types.numeric import Int8Dumper
from psycopg_pool import PoolTimeout

from fencepost.errors import DatabaseUnavailableError, SchemaError, SettingsError

Role = Literal["owner", "worker", "dashboard", "producer"]

# A dead network is noticed within seconds; the server forgets a dead client as fast.
_CONNECTION: dict[str, Any] = {
    "connect_timeout": 3,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "client_encoding": "utf8",  # whatever the database's is: arrays go as bytes of ours
}
_SESSION = {
    "statement_timeout": "15s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "15s",
    "client_connection_check_interval": "5s",
    # What the statements were written for, whatever the database's own defaults are.
    "default_transaction_isolation": "read committed",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "jit": "off",
}


def connect(
    url: str, *, role: Role, schema: str = "public", name: str = "fencepost"
) -> Connection[Any]:
    """Open a connection that acts as ``fencepost_<role>`` in Fencepost's schema.

    It is in autocommit: each statement is its own transaction, and a longer one is
    begun with ``conn.transaction()`` by whoever needs it.

    Args:
        url: a libpq connection string; its login must be a member of the role.
        role: whose rights to take.
        schema: where the tables live.
        name: shown in ``pg_stat_activity``.

    Raises:
        DatabaseUnavailableError: the server does not answer.
        SettingsError: it answers, and refuses this login or this role.
    """
    with errors_as_ours():
        conn = psycopg.connect(url, autocommit=True, application_name=name, **_CONNECTION)
    try:
        configure(conn, role=role, schema=schema)
    except BaseException:
        conn.close()
        raise
    return conn


def configure(conn: Connection[Any], *, role: Role, schema: str) -> None:
    """Prepare a fresh autocommit connection: role, schema, limits, one type for integers."""
    # One text, one prepared statement: psycopg would pick int2, int4 or int8 by value.
    conn.adapters.register_dumper(int, Int8Dumper)
    settings = {**_SESSION, "search_path": f'"{schema}", pg_temp'}
    with errors_as_ours():
        try:
            conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(f"fencepost_{role}")))
        except psycopg.errors.InvalidParameterValue as error:
            raise SchemaError(
                "This database has no Fencepost roles yet; run `fencepost migrate`."
            ) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise SettingsError(
                f"The login {conn.info.user!r} may not act as fencepost_{role};"
                f" run as an administrator: GRANT fencepost_{role} TO {conn.info.user}"
            ) from error
        conn.execute(
            "SELECT set_config(name, setting, false)"
            " FROM unnest(%s::text[], %s::text[]) AS s(name, setting)",
            (list(settings), list(settings.values())),
        )
        if role == "worker":
            # A token must be durable before it is used, or a crash hands it out twice.
            conn.execute(
                "SELECT set_config('synchronous_commit', 'on', false)"
                " WHERE current_setting('synchronous_commit') = 'off'"
            )


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
