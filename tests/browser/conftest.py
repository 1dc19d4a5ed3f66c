"""A real Chromium on a real server; whatever its console says fails the test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Browser, BrowserContext, Page
from psycopg import sql

from chromium import Watched
from fencepost.embedded import Embedded
from fencepost.keyring import Keyring
from serving import Site, free_port, start, stop
from stage import Stage

NAME = "fencepost_browser"


@pytest.fixture(scope="session")
def site(
    server: Embedded, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """The dashboard as it is shipped: gunicorn with its threads, two processes, a pool each."""
    folder = tmp_path_factory.mktemp("site")
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as conn:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER fencepost STRATEGY FILE_COPY")
        conn.execute(statement.format(sql.Identifier(NAME), sql.Identifier(template)))
    endpoint_keys = Keyring.generate()
    port = free_port()
    environ = {
        # The import path too: the programs under test are those of this checkout.
        **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
        "FENCEPOST_DATABASE_URL": server.url().replace("/fencepost?", f"/{NAME}?"),
        "FENCEPOST_HOME": str(folder / "home"),
        "FENCEPOST_KEYS": Keyring.generate(),
        "FENCEPOST_ENDPOINT_KEYS": endpoint_keys,
        "FENCEPOST_SECRET_KEY": "signs the cookies and cursors of tests",
        "FENCEPOST_ENVIRONMENT": "tests",
        "FENCEPOST_BIND": f"127.0.0.1:{port}",
    }
    stage = Stage(server.superuser_url(NAME), Keyring.parse(endpoint_keys))
    log = folder / "log"
    url = f"http://127.0.0.1:{port}"
    process = start(environ, log, url)
    found = Site(url, stage, environ, process, log)
    yield found
    stop(found.process)
    stage.close()
    assert "Traceback" not in log.read_text()


@pytest.fixture
def new_page(browser: Browser, site: Site) -> Iterator[Callable[..., Page]]:
    """Pages that are logged in; their console, their errors and their policy are watched."""
    contexts: list[BrowserContext] = []
    watched = Watched()

    def make(role: str | None = "operator", **options: Any) -> Page:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        context = browser.new_context(base_url=site.url, **options)
        contexts.append(context)
        context.set_default_timeout(15_000)
        if role is not None:
            cookie = site.stage.user(f"{role} {len(contexts)} {os.urandom(3).hex()}", role)
            context.add_cookies([{"name": "fencepost_session", "value": cookie, "url": site.url}])
        page = context.new_page()
        watched.watch(page, site.url)
        page.allow = watched.allowed.append  # type: ignore[attr-defined]
        return page

    yield make
    for context in contexts:
        context.close()
    assert watched.faults == []


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    """An operator's page."""
    return new_page()
