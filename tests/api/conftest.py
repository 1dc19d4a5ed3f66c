"""The API as a program sees it: the whole application on one database for each module.

A clone for every test would take longer than the tests; so each test uses event types of its
own, and counts what is its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from flask import Flask
from psycopg import Connection, sql

from api_client import Api, Role
from dashboard import create_app
from dashboard.models import db
from fencepost.embedded import Embedded
from fencepost.keyring import Keyring
from fencepost.settings import Settings
from fencepost.store import outbox, tokens
from fencepost.store.pool import connect


@pytest.fixture(scope="module")
def database(server: Embedded, template: str) -> Iterator[str]:
    """A migrated database, empty at the module's first test."""
    name = f"api_{uuid.uuid4().hex}"
    made = sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER fencepost STRATEGY FILE_COPY")
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as conn:
        conn.execute(made.format(sql.Identifier(name), sql.Identifier(template)))
        yield server.url().replace("/fencepost?", f"/{name}?")
        conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def environment(database: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a dashboard of this database is started with."""
    home: Path = tmp_path_factory.mktemp("home")
    return {
        "FENCEPOST_DATABASE_URL": database,
        "FENCEPOST_HOME": str(home),
        "FENCEPOST_KEYS": Keyring.generate(),
        "FENCEPOST_ENDPOINT_KEYS": Keyring.generate(),
        "FENCEPOST_SECRET_KEY": "signs the cookies and cursors of tests",
        "FENCEPOST_ALLOW_HTTP": "1",
        "FENCEPOST_ALLOW_NETWORKS": "127.0.0.0/8",
        "FENCEPOST_NODE_NAME": "node-of-tests",
    }


@pytest.fixture(scope="module")
def api_settings(environment: dict[str, str]) -> Settings:
    return Settings.load(environment)


@pytest.fixture(scope="module")
def app(api_settings: Settings) -> Iterator[Flask]:
    """The application, its connections closed behind it."""
    app = create_app(api_settings)
    yield app
    with app.app_context():
        db.engine.dispose()


@pytest.fixture(scope="module")
def owner(database: str) -> Iterator[Connection[Any]]:
    """A connection beside the application's, in autocommit, that may look at everything."""
    with connect(database, role="owner") as conn:
        yield conn


@pytest.fixture(scope="module")
def worker_connection(database: str) -> Iterator[Connection[Any]]:
    """What a worker has."""
    with connect(database, role="worker") as conn:
        yield conn


@pytest.fixture(scope="module")
def role_tokens(database: str) -> Mapping[Role, str]:
    """The text of a token of each role."""
    made: dict[Role, str] = {}
    roles: tuple[Role, ...] = ("viewer", "operator", "admin")
    with connect(database, role="dashboard") as conn, conn.transaction():
        for role in roles:
            made[role] = tokens.create_token(conn, f"the {role}", role=role, actor="test")[1]
    return made


@pytest.fixture(scope="module")
def api(app: Flask, role_tokens: Mapping[Role, str]) -> Api:
    return Api(app.test_client(), role_tokens)


@pytest.fixture(scope="module")
def fan_out(worker_connection: Connection[Any]) -> Callable[[], int]:
    """Do what a worker does with the outbox, once; give the number of deliveries made."""

    def run() -> int:
        with worker_connection.transaction():
            rows = outbox.lock_outbox(worker_connection, 1000)
            assert all(row.payload is None for row in rows), "it came in clear"
            sealed_already = [(row, None) for row in rows]
            return outbox.fan_out(worker_connection, sealed_already, worker_id="fan-out")

    return run


@pytest.fixture
def count_events(owner: Connection[Any]) -> Callable[[], int]:
    """Count the events that there are."""

    def count() -> int:
        row = owner.execute("SELECT count(*) FROM webhook_events").fetchone()
        assert row is not None
        return int(row[0])

    return count
