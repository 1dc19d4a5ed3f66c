"""The application's connection to PostgreSQL, for models and for named SQL alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import psycopg
from flask import Flask
from psycopg import Connection
from sqlalchemy.engine import Connection as SQLAlchemyConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolExhaustedError

from dashboard.models import db
from fencepost.errors import DatabaseUnavailableError, FencepostError
from fencepost.settings import Settings
from fencepost.store import pool
from fencepost.store.migrate import check_revision

POOL_SIZE: Final = 8
_PAGE_LIMIT: Final = timedelta(seconds=2)
"""A page that takes longer says so, instead of holding a connection that workers may need."""
_UNDEFINED: Final = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedObject,
)
PAGE_TIMEOUT: Final = f"{_PAGE_LIMIT.seconds} s"
PREVIEW_TIMEOUT: Final = "5 s"
"""For the exact count of a replay, which is asked for once."""


class TooSlowError(DatabaseUnavailableError):
    """The query was stopped because it took longer than a page may wait."""


def init_app(app: Flask, settings: Settings) -> None:
    """Configure the pool. No connection is opened here: gunicorn forks after this."""
    if settings.database_url is None:
        raise DatabaseUnavailableError("There is no database yet; `fencepost up` starts one.")
    url = settings.database_url

    def open_connection() -> Connection[Any]:
        conn = pool.connect(
            url,
            role="dashboard",
            schema=settings.schema,
            name="fencepost web",
            statement_limit=_PAGE_LIMIT,
        )
        conn.autocommit = False
        return conn

    app.config["SQLALCHEMY_DATABASE_URI"] = "postgresql+psycopg://"
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = {
        "creator": open_connection,
        "pool_size": POOL_SIZE,
        "max_overflow": 0,
        "pool_timeout": 5,
        "pool_pre_ping": True,  # a restart of the server costs no request
        "pool_recycle": 1800,
    }
    db.init_app(app)


def connection() -> Connection[Any]:
    """Give the psycopg connection of this request's session, in its transaction.

    Flushed rows are visible both ways, and a rollback undoes both. Never use
    ``conn.transaction()`` on it: it would commit by itself.
    """
    with errors_as_ours():
        return driver(db.session.connection())


def driver(conn: SQLAlchemyConnection) -> Connection[Any]:
    """Give the psycopg connection below one of SQLAlchemy's."""
    found = conn.connection.driver_connection
    if not isinstance(found, Connection):
        raise TypeError("the driver is not psycopg")
    return found


@contextmanager
def transaction(*, timeout: str | None = None) -> Iterator[Connection[Any]]:
    """Give the same connection and commit at the end; an exception rolls back.

    Args:
        timeout: for each statement in it, in PostgreSQL's words; None: a page's own.
    """
    conn = connection()
    with errors_as_ours(timeout or PAGE_TIMEOUT):
        try:
            if timeout is not None:
                conn.execute("SELECT set_config('statement_timeout', %s, true)", (timeout,))
            yield conn
            db.session.commit()
        except BaseException:
            db.session.rollback()
            raise


@contextmanager
def errors_as_ours(timeout: str = PAGE_TIMEOUT) -> Iterator[None]:
    """Turn the driver's and SQLAlchemy's "no database" errors into ours.

    Args:
        timeout: what a statement may take, for the message.

    Raises:
        TooSlowError: the statement was cancelled.
        DatabaseUnavailableError: the connection is gone, or none could be had.
    """
    try:
        yield
    except (psycopg.Error, DBAPIError, PoolExhaustedError) as error:
        ours = as_ours(error, timeout)
        if ours is None:
            raise
        raise ours from error


def explained(error: Exception) -> Exception:
    """Tell a database that was not migrated from a defect in our SQL: they look alike."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, _UNDEFINED):
        db.session.rollback()
        try:
            check_revision(connection())
        except FencepostError as explanation:
            return explanation
    return error


def as_ours(error: Exception, timeout: str = PAGE_TIMEOUT) -> DatabaseUnavailableError | None:
    """Say what an error of the driver or of SQLAlchemy is to us; None for a defect of ours."""
    if isinstance(error, PoolExhaustedError):
        return DatabaseUnavailableError("No database connection came free in time.")
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, DatabaseUnavailableError):
        return cause
    if isinstance(cause, psycopg.errors.QueryCanceled):
        return TooSlowError(
            f"Took longer than {timeout}. Narrow the time range or pick a subscription."
        )
    if isinstance(cause, psycopg.Error) and pool.is_outage(cause):
        return DatabaseUnavailableError("The database cannot be reached right now.")
    return None
