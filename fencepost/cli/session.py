"""What a command works with: the settings, and a connection to the database."""

from __future__ import annotations

import getpass
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import Connection, IsolationLevel

from fencepost.embedded import database
from fencepost.errors import NotFoundError
from fencepost.home import has_database
from fencepost.settings import Settings
from fencepost.store.pool import connect, errors_as_ours
from fencepost.store.session import Role


@dataclass(frozen=True, slots=True)
class Session:
    """An open connection, acting for the person at the terminal, inside one transaction."""

    conn: Connection[Any]
    settings: Settings


@contextmanager
def session(
    *, require: Collection[str] = (), role: Role = "dashboard", is_snapshot: bool = False
) -> Iterator[Session]:
    """Open a transaction: committed when the block ends well, else rolled back.

    An embedded database that nobody runs is started for as long as it takes.

    Args:
        require: the keys of ``Settings.load`` that the command cannot do without.
        role: whose rights it needs.
        is_snapshot: several reads see one moment.

    Raises:
        SettingsError: the settings are at fault; a line each.
        NotFoundError: there is no database yet.
        DatabaseUnavailableError: it does not answer.
    """
    with connected(require=require, role=role) as one:
        if is_snapshot:
            one.conn.isolation_level = IsolationLevel.REPEATABLE_READ
        with one.conn.transaction():
            yield one


@contextmanager
def connected(*, require: Collection[str] = (), role: Role = "dashboard") -> Iterator[Session]:
    """Open a connection in autocommit, for commands of several transactions."""
    settings = Settings.load(require=require)
    if settings.is_embedded and not has_database(settings.home):
        raise NotFoundError(
            f"there is no database in {settings.home} yet; start one with: fencepost up"
            " (or set FENCEPOST_HOME or FENCEPOST_DATABASE_URL)"
        )
    with (
        database(settings) as answering,
        errors_as_ours(),
        open_connection(answering, role) as conn,
    ):
        yield Session(conn, answering)


def open_connection(settings: Settings, role: Role) -> Connection[Any]:
    """Open a connection in autocommit, with the rights of a role.

    Args:
        settings: of a database that answers.
        role: whose rights.
    """
    if settings.database_url is None:
        raise ValueError("a session needs a database URL")
    return connect(settings.database_url, role=role, schema=settings.schema, name="fencepost cli")


def actor() -> str:
    """Name the person at the terminal, as the operators' log shows them."""
    try:
        return f"cli {getpass.getuser()}"
    except (KeyError, OSError):  # a container's user without a name
        return f"cli {os.getuid()}"
