"""What all tests share: a real PostgreSQL for each process that runs tests, keys, settings.

This folder is on the tests' path, for ``receiver``, ``factories`` and ``waiting``.
``TEST_PG_BIN`` chooses another PostgreSQL than the embedded one: the folder of its programs;
``TEST_TRANSPORT`` what workers send with.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest
from psycopg import Connection, sql

from chromium import browser, playwright
from fencepost.embedded import Embedded
from fencepost.keyring import Keyring
from fencepost.settings import Settings
from fencepost.store.migrate import migrate

__all__ = ["browser", "playwright"]  # fixtures; one process can have one Playwright

KEYS = Keyring.generate()
ENDPOINT_KEYS = Keyring.generate()
SECRET_KEY = "signs the cookies and cursors of tests"
TEMPLATE = "fencepost_template"

# What a developer has set for a Fencepost of their own is no business of the tests.
for _name in [name for name in os.environ if name.startswith("FENCEPOST_")]:
    del os.environ[_name]


def _refuse_the_world(event: str, args: tuple[Any, ...]) -> None:
    """Keep tests on this machine: a connection to any other address is a defect."""
    if event != "socket.connect" or not isinstance(args[1], tuple):
        return
    host = str(args[1][0]).partition("%")[0]
    if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
        raise AssertionError(f"a test tried to connect to {host}")


sys.addaudithook(_refuse_the_world)


class Environ(Protocol):
    """Makes the environment of a Fencepost program."""

    def __call__(self, database_url: str | None = None, **settings: object) -> dict[str, str]:
        """Name settings as their fields are: ``environ(db_url, lease_seconds=1)``."""


class MakeSettings(Protocol):
    """Makes settings for use in this process."""

    def __call__(self, database_url: str | None = None, **settings: object) -> Settings:
        """Name settings as their fields are: ``settings(db_url, lease_seconds=1)``."""


# keys and settings


@pytest.fixture
def keyring() -> Keyring:
    """The payloads' keys, also those of ``settings`` and ``environ``."""
    return Keyring.parse(KEYS)


@pytest.fixture
def endpoint_keyring() -> Keyring:
    """The endpoints' keys, also those of ``settings`` and ``environ``."""
    return Keyring.parse(ENDPOINT_KEYS)


@pytest.fixture
def environ(tmp_path: Path) -> Environ:
    """Loopback and plain http allowed, keys set, home in the test's own folder."""

    def make(database_url: str | None = None, **settings: object) -> dict[str, str]:
        chosen: dict[str, object] = {
            "allow_http": True,
            "allow_networks": "127.0.0.0/8,::1/128",
            "endpoint_keys": ENDPOINT_KEYS,
            "home": tmp_path / "home",
            "keys": KEYS,
            "secret_key": SECRET_KEY,
            "transport": os.environ.get("TEST_TRANSPORT", "requests"),
            **settings,
        }
        if database_url is not None:
            chosen["database_url"] = database_url
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        return kept | {
            f"FENCEPOST_{name.upper()}": str(int(value) if isinstance(value, bool) else value)
            for name, value in chosen.items()
            if value is not None
        }

    return make


@pytest.fixture
def settings(environ: Environ) -> MakeSettings:
    """Settings as a program started with ``environ`` would have them."""

    def make(database_url: str | None = None, **settings: object) -> Settings:
        return Settings.load(environ(database_url, **settings))

    return make


# PostgreSQL


@pytest.fixture(scope="session")
def server() -> Iterator[Embedded]:
    """One server for each process that runs tests; gone with it, however it ends.

    No fsync: tests kill processes, not the machine.
    """
    home = Path(tempfile.mkdtemp(prefix="fencepost-test-"))
    bin_dir = os.environ.get("TEST_PG_BIN")
    chosen = Embedded(
        home / "home",
        Path(bin_dir) if bin_dir else None,
        configuration={"fsync": "off", "full_page_writes": "off", "shared_buffers": "128MB"},
    )
    with chosen:
        yield chosen
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def template(server: Embedded) -> str:
    """A database with the schema of today, to be cloned."""
    _create(server, TEMPLATE, "template0")
    migrate(_url(server, TEMPLATE))
    return TEMPLATE


@pytest.fixture(scope="session")
def shared_database(server: Embedded, template: str) -> str:
    """One clone for all tests that roll back what they do."""
    _create(server, "fencepost_shared", template)
    return "fencepost_shared"


@pytest.fixture
def db_url(server: Embedded, template: str) -> Iterator[str]:
    """A database of the test's own, migrated and empty, for tests that commit."""
    name = f"test_{uuid.uuid4().hex}"
    _create(server, name, template)
    yield _url(server, name)
    _execute(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def receivers_database(server: Embedded) -> str:
    """One database for all tests with a receiver that keeps something."""
    _create(server, "receiver", "template0")
    return "receiver"


@pytest.fixture
def receivers_url(server: Embedded, receivers_database: str) -> str:
    """An empty database, such as a receiver has for itself."""
    url = _url(server, receivers_database)
    with psycopg.connect(url) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return url


@pytest.fixture
def superuser_url(server: Embedded, db_url: str) -> str:
    """The same database as ``db_url``, for its superuser."""
    name = psycopg.conninfo.conninfo_to_dict(db_url)["dbname"]
    return server.superuser_url(str(name))


@pytest.fixture
def conn(server: Embedded, shared_database: str) -> Iterator[Connection[Any]]:
    """A connection as Fencepost's login; whatever the test does is rolled back."""
    yield from _rolled_back(_url(server, shared_database))


@pytest.fixture
def superuser(server: Embedded, shared_database: str) -> Iterator[Connection[Any]]:
    """A connection as superuser; whatever the test does is rolled back."""
    yield from _rolled_back(server.superuser_url(shared_database))


def _rolled_back(url: str) -> Iterator[Connection[Any]]:
    connection = psycopg.connect(url)
    try:
        yield connection
    finally:
        connection.rollback()
        connection.close()


def _url(server: Embedded, name: str) -> str:
    return server.url().replace("/fencepost?", f"/{name}?")


def _create(server: Embedded, name: str, template: str) -> None:
    """Clone a database; copying its files is faster than logging them, and is done at once."""
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER fencepost STRATEGY FILE_COPY")
    _execute(server, statement.format(sql.Identifier(name), sql.Identifier(template)))


def _execute(server: Embedded, statement: sql.Composed) -> None:
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(statement)
