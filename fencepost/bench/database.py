"""The benchmark's own database: a server of its own, or a database on the one that is set."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import Connection, sql

from fencepost.bench.plan import Plan
from fencepost.embedded import Embedded
from fencepost.keyring import Keyring
from fencepost.settings import Settings
from fencepost.store.migrate import migrate
from fencepost.store.pool import connect, errors_as_ours
from fencepost.store.session import Role

_PASSED_ON: Final = (
    "CONCURRENCY", "CONNECT_SECONDS", "DEADLINE_SECONDS", "KEEP_RESPONSES", "LEASE_SECONDS",
    "MAX_IN_FLIGHT_PER_SUBSCRIPTION",
)  # fmt: skip
"""What a benchmark takes over from the environment, for its figures depend on it."""


@dataclass(frozen=True, slots=True)
class Database:
    """A migrated, empty database, and the environment of programs that work on it."""

    settings: Settings
    environ: Mapping[str, str] = field(repr=False)
    folder: Path
    """For logs and configurations; gone afterwards."""

    def connect(self, role: Role) -> Connection[Any]:
        """Open a connection in autocommit, without a limit on how long a statement takes."""
        conn = connect(self._url, role=role, schema=self.settings.schema, name="fencepost bench")
        conn.execute("SET statement_timeout = 0")
        return conn

    @property
    def _url(self) -> str:
        if self.settings.database_url is None:
            raise ValueError("a database that answers has a URL")
        return self.settings.database_url


@contextmanager
def own_database(plan: Plan, *, say: Callable[[str], None]) -> Iterator[Database]:
    """Make a database for as long as the block takes, with fsync as its server has it.

    Args:
        plan: says which transport the settings name.
        say: told when the server that is set cannot be used.

    Raises:
        SettingsError: the settings are at fault, or know no such transport.
        DatabaseUnavailableError: no server answers.
    """
    chosen = Settings.load()
    folder = Path(tempfile.mkdtemp(prefix="fencepost-bench-"))
    try:
        folder.chmod(0o711)  # nginx and PostgreSQL may run as other users
        url = None if chosen.is_embedded else chosen.database_url
        if url is not None and not _may_create(url):
            say("this login may not create databases; using an embedded server instead")
            url = None
        at = _on_embedded(folder) if url is None else _on_server(url)
        with at as answering:
            environ = _environ(plan, folder, answering)
            settings = Settings.load(environ)
            migrate(answering, settings.schema)
            yield Database(settings, environ, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _on_embedded(folder: Path) -> Iterator[str]:
    with Embedded(folder / "home") as server:
        yield server.url()


@contextmanager
def _on_server(url: str) -> Iterator[str]:
    name = f"fencepost_bench_{secrets.token_hex(4)}"
    statements = [sql.SQL(text).format(sql.Identifier(name)) for text in _MAKE_AND_DROP]
    _execute(url, statements[0])
    try:
        yield f"{url}{'&' if '?' in url else '?'}dbname={name}"  # the last one named counts
    finally:
        _execute(url, statements[1])


_MAKE_AND_DROP: Final = ("CREATE DATABASE {}", "DROP DATABASE {} WITH (FORCE)")


def _execute(url: str, statement: sql.Composed) -> None:
    with errors_as_ours(), psycopg.connect(url, autocommit=True) as conn:
        conn.execute(statement)


def _may_create(url: str) -> bool:
    with errors_as_ours(), psycopg.connect(url, connect_timeout=5) as conn:
        row = conn.execute(
            "SELECT rolsuper OR rolcreatedb AND rolcreaterole FROM pg_roles"
            " WHERE rolname = current_user"
        ).fetchone()
    return row is not None and bool(row[0])


def _environ(plan: Plan, folder: Path, url: str) -> dict[str, str]:
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith("FENCEPOST_") or name.removeprefix("FENCEPOST_") in _PASSED_ON
    }
    own = {
        "ALLOW_HTTP": "1",
        "ALLOW_NETWORKS": "127.0.0.0/8",
        "DATABASE_URL": url,
        "ENDPOINT_KEYS": Keyring.generate(),
        "HOME": str(folder / "home"),
        "KEYS": Keyring.generate(),
        "NODE_NAME": "bench",
        "SECRET_KEY": secrets.token_urlsafe(32),
        "TRANSPORT": plan.transport,
    }
    return kept | {f"FENCEPOST_{name}": text for name, text in own.items()}
