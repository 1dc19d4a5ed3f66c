"""The dashboard's application on a database of the test's own, and people who are logged in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from dashboard import create_app
from dashboard.live_source import DatabaseSource
from dashboard.models import db
from fencepost.keyring import Keyring
from stage import Stage


@pytest.fixture
def stage(superuser_url: str, endpoint_keyring: Keyring, keyring: Keyring) -> Iterator[Stage]:
    found = Stage(superuser_url, endpoint_keyring, keyring)
    yield found
    found.close()


@pytest.fixture
def make_app(db_url: str, settings: Callable[..., Any]) -> Iterator[Callable[..., Flask]]:
    """Applications with settings of their own: ``make_app(proxy_hops=1)``."""
    made: list[Flask] = []

    def make(url: str = db_url, **chosen: object) -> Flask:
        made.append(create_app(settings(url, **chosen), streams=3))
        return made[-1]

    yield make
    for app in made:
        app.extensions["fencepost"].hub.close()
        with app.app_context():
            db.engine.dispose()


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app()


@pytest.fixture
def source(app: Flask) -> DatabaseSource:
    """What the hub of a live process reads."""
    with app.app_context():
        return DatabaseSource(db.engine)


@pytest.fixture
def as_role(app: Flask, stage: Stage) -> Callable[[str], FlaskClient]:
    """A client with the session of a user of that role."""

    def make(role: str) -> FlaskClient:
        client = app.test_client()
        client.set_cookie("fencepost_session", stage.user(f"{role} person", role))
        return client

    return make


@pytest.fixture
def viewer(as_role: Callable[[str], FlaskClient]) -> FlaskClient:
    return as_role("viewer")


@pytest.fixture
def operator(as_role: Callable[[str], FlaskClient]) -> FlaskClient:
    return as_role("operator")


@pytest.fixture
def admin(as_role: Callable[[str], FlaskClient]) -> FlaskClient:
    return as_role("admin")


@pytest.fixture
def token() -> Callable[[FlaskClient], str]:
    """The form token of a client's pages."""

    def read(client: FlaskClient) -> str:
        page = client.get("/login" if not client.get_cookie("fencepost_session") else "/replays")
        found = re.search(r'name="csrf_token" value="([^"]+)"', page.text)
        assert found is not None
        return found[1]

    return read


@pytest.fixture
def post(token: Callable[[FlaskClient], str]) -> Callable[..., Any]:
    """Send a form as its page would."""

    def send(client: FlaskClient, path: str, **fields: object) -> Any:
        return client.post(path, data={"csrf_token": token(client), **fields})

    return send
