"""Run a statement in the transaction of whatever a producer or receiver works with.

psycopg is known by its classes. SQLAlchemy and Django are known by what their objects offer, so
that neither is imported, or needed, here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from fencepost.errors import NotInTransactionError

Parameters: TypeAlias = Mapping[str, object]
Rows: TypeAlias = Sequence[Sequence[Any]]
Run: TypeAlias = Callable[[str, Parameters], Rows]
AsyncRun: TypeAlias = Callable[[str, Parameters], Awaitable[Rows]]

_ACCEPTED: Final = (
    "a psycopg connection, an SQLAlchemy Session or Connection on psycopg,"
    " or a Django connection to PostgreSQL"
)


def join(connection: Any) -> Run:  # noqa: ANN401  # it may come from a library that is not here
    """Find out how to run statements in the caller's transaction.

    Returns:
        A function of statement and named parameters; it never commits.

    Raises:
        NotInTransactionError: there is no transaction to belong to.
        TypeError: it is nothing that this knows, or is asynchronous.
    """
    if isinstance(connection, psycopg.Connection):
        return _join_psycopg(connection)
    if isinstance(connection, psycopg.AsyncConnection) or _is_async_sqlalchemy(connection):
        raise TypeError(
            "this connection is asynchronous: await apublish(…), or aonce(…) of an Inbox, instead"
        )
    if _is_of("sqlalchemy", connection):
        return _join_sqlalchemy(connection)
    if _is_of("django", connection) and hasattr(connection, "in_atomic_block"):
        return _join_django(connection)
    raise TypeError(f"this takes {_ACCEPTED}, not {_name(connection)}")


async def join_async(connection: Any) -> AsyncRun:  # noqa: ANN401  # likewise
    """Do what ``join`` does for an asynchronous connection."""
    if _is_async_sqlalchemy(connection):
        run = await connection.run_sync(join)

        async def run_bridged(statement: str, parameters: Parameters) -> Rows:
            rows: Rows = await connection.run_sync(lambda _: run(statement, parameters))
            return rows

        return run_bridged
    if not isinstance(connection, psycopg.AsyncConnection):
        raise TypeError(
            "this takes an asynchronous psycopg connection, or an SQLAlchemy AsyncSession or"
            f" AsyncConnection on psycopg, not {_name(connection)}"
        )
    _require_transaction(connection)

    async def run_here(statement: str, parameters: Parameters) -> Rows:
        async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
            await cursor.execute(statement.encode(), parameters)
            return await cursor.fetchall()

    return run_here


def _join_psycopg(connection: psycopg.Connection[Any]) -> Run:
    _require_transaction(connection)

    def run(statement: str, parameters: Parameters) -> Rows:
        # A cursor of our own: the connection may be set to make others, with other rows.
        with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
            return cursor.execute(statement.encode(), parameters).fetchall()

    return run


def _require_transaction(
    connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any],
) -> None:
    """Without autocommit psycopg begins a transaction by itself; with it, somebody must have."""
    if connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE:
        raise NotInTransactionError(
            "the connection is in autocommit: call this inside `with conn.transaction():`"
        )


def _join_sqlalchemy(bound: Any) -> Run:  # noqa: ANN401  # a Session, scoped_session or Connection
    if hasattr(bound, "registry") and callable(bound):
        bound = bound()
    if hasattr(bound, "get_bind"):
        if not bound.in_transaction() and not getattr(bound, "autobegin", True):
            raise NotInTransactionError("the session has no transaction: call session.begin()")
        bound = bound.connection()
    if not hasattr(bound, "exec_driver_sql"):
        raise TypeError(f"this takes {_ACCEPTED}, not {_name(bound)}")
    if (bound.dialect.name, bound.dialect.paramstyle) != ("postgresql", "pyformat"):
        raise TypeError(
            f"this needs SQLAlchemy on psycopg, not on {bound.dialect.name}+{bound.dialect.driver}"
        )
    if bound.connection.driver_connection.autocommit:
        raise NotInTransactionError(
            "the engine is in AUTOCOMMIT: use a connection with another isolation level"
        )

    def run(statement: str, parameters: Parameters) -> Rows:
        rows: Rows = bound.exec_driver_sql(statement, parameters).fetchall()
        return rows

    return run


def _join_django(connection: Any) -> Run:  # noqa: ANN401  # a database wrapper, or its proxy
    if connection.vendor != "postgresql":
        raise TypeError(f"this needs Django on PostgreSQL, not on {connection.vendor}")
    if not connection.in_atomic_block and connection.get_autocommit():
        raise NotInTransactionError(
            "Django has no transaction here: call this inside `with transaction.atomic():`"
        )

    def run(statement: str, parameters: Parameters) -> Rows:
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            rows: Rows = cursor.fetchall()
            return rows

    return run


def _is_async_sqlalchemy(connection: Any) -> bool:  # noqa: ANN401  # likewise
    """Tell an AsyncSession or AsyncConnection by its bridge to the synchronous one."""
    return _is_of("sqlalchemy", connection) and hasattr(connection, "run_sync")


def _is_of(library: str, thing: object) -> bool:
    """Tell whether a class of ``thing``, or one that it derives from, is the library's."""
    return any(kind.__module__.partition(".")[0] == library for kind in type(thing).__mro__)


def _name(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
