"""What a session must be like: set on one of our own, asked of one that a pooler lends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Literal

import psycopg
from psycopg import Connection, sql
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8Dumper

from fencepost.errors import SchemaError, SettingsError

Role = Literal["owner", "worker", "dashboard", "producer"]

STATEMENT_LIMIT: Final = timedelta(seconds=15)

_LIMITS: Final[Mapping[str, str]] = {
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "15s",
    "client_connection_check_interval": "5s",
}
"""A login behind a pooler may bring others, but not none."""

_TERMS: Final[Mapping[str, str]] = {
    # What the statements were written for, whatever the database's own defaults are.
    "default_transaction_isolation": "read committed",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "jit": "off",
}


def prepare(
    conn: Connection[Any], *, role: Role, schema: str, statement_limit: timedelta = STATEMENT_LIMIT
) -> None:
    """Prepare a fresh autocommit connection: role, schema, limits, one type for integers.

    A pooler that lends connections by the transaction would hand whatever is set here to
    the next client, of ours or not, and give us the next time another connection. Behind one,
    nothing is set: the login must bring it all, and each program have a login of its own.

    Args:
        conn: nothing was executed on it.
        role: whose rights to take.
        schema: where the tables live.
        statement_limit: no statement may take longer; behind a pooler, the login's.

    Raises:
        SchemaError: there are no such roles.
        SettingsError: the login may not take the role, or does not bring what it must.
    """
    # One text, one prepared statement: psycopg would pick int2, int4 or int8 by value.
    conn.adapters.register_dumper(int, Int8Dumper)
    settings = {
        "search_path": f'"{schema}", pg_temp',
        **_TERMS,
        "statement_timeout": in_words(statement_limit),
        **_LIMITS,
    }
    if role == "worker":
        settings |= _durable(conn)
    if is_lent(conn):
        conn.prepare_threshold = None  # who prepares a statement is not always who executes it
        _require(conn, {"role": f"fencepost_{role}", **settings})
        return
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


def is_lent(conn: Connection[Any]) -> bool:
    """Tell whether a pooler lends it: to its clients it names processes of its own invention."""
    row = conn.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] != conn.info.backend_pid


def limit_statements(conn: Connection[Any], limit: timedelta) -> None:
    """Let no statement of this transaction take longer, and say nothing of the next."""
    conn.execute("SELECT set_config('statement_timeout', %s, true)", (in_words(limit),))


def in_words(limit: timedelta) -> str:
    """Write a duration as PostgreSQL's settings have it."""
    return f"{limit // timedelta(milliseconds=1)}ms"


def _durable(conn: Connection[Any]) -> dict[str, str]:
    """Give what a worker's session lacks: a token that a crash takes back is handed out twice."""
    row = conn.execute("SELECT current_setting('synchronous_commit') = 'off'").fetchone()
    return {"synchronous_commit": "on"} if row is not None and row[0] else {}


def _require(conn: Connection[Any], wanted: Mapping[str, str]) -> None:
    """Look whether the login brings what it must; when not, say how it is given that."""
    with conn.cursor(row_factory=tuple_row) as cur:
        there = cur.execute(
            "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS s(name)", (list(wanted),)
        ).fetchall()
        who = cur.execute("SELECT session_user::text, current_database()::text").fetchall()
    lacking = [name for name, setting in there if not _will_do(name, setting, wanted[name])]
    if not lacking:
        return
    login, database = map(sql.Identifier, who[0])
    statements = [sql.SQL("GRANT {} TO {}").format(sql.Identifier(wanted["role"]), login)]
    for name in lacking:
        # A list of names must not become one name.
        values = wanted[name].rsplit(", ", 1) if name == "search_path" else [wanted[name]]
        statements.append(
            sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}").format(
                login,
                database,
                sql.Identifier(name),
                sql.SQL(", ").join(sql.Literal(value.strip('"')) for value in values),
            )
        )
    listed = "; ".join(one.as_string(conn) for one in statements)
    raise SettingsError(
        "The database is reached through a pooler, where each program needs a login of its own,"
        " which brings its settings. Use a direct address, or run as an administrator:"
        f" {listed}; and let the pooler RECONNECT"
    )


def _will_do(name: str, setting: str, wanted: str) -> bool:
    if name in _LIMITS or name == "statement_timeout":
        return setting != "0"
    return setting.replace('"', "") == wanted.replace('"', "")
