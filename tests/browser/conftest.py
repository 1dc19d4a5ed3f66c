"""A real Chromium on a real server; whatever its console says fails the test."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from flask import Flask
from playwright.sync_api import Browser, BrowserContext, Page
from psycopg import sql

from checks import CHECKS
from chromium import ELSEWHERE, TELL_VIOLATIONS, Watched
from dashboard import create_app
from fencepost.embedded import Embedded
from fencepost.keyring import Keyring
from fencepost.settings import Settings
from lively import Lively
from programs import Program, wait_for_workers
from receiver import Receiver, in_turn
from serving import Site, free_port, start, stop
from stage import Stage
from tour import Tour, tour

_CHECK = "check"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let reports know which check a test is for, in the processes of xdist too."""
    for item in items:
        for mark in item.iter_markers(_CHECK):
            item.user_properties.append((_CHECK, mark.args[0]))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tick the checks off."""
    told: dict[int, Counter[str]] = defaultdict(Counter)
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, number in getattr(report, "user_properties", []):
                if name == _CHECK:
                    told[number][outcome] += 1
    if not told:
        return
    terminalreporter.section("checks")
    for number, promise in CHECKS.items():
        found = ", ".join(f"{count} {outcome}" for outcome, count in told[number].items())
        terminalreporter.line(f"{number:2}  {found or 'not run':10}  {promise}")


@pytest.fixture(scope="session")
def make_site(
    server: Embedded, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Site]]:
    """Dashboards as they are shipped: gunicorn with its threads, two processes, a pool each.

    ``make_site("empty")`` has a database of that name, migrated and empty; settings are named
    as in the environment.
    """
    made: list[Site] = []

    def make(name: str, **settings: str) -> Site:
        folder = tmp_path_factory.mktemp(name)
        database = f"fencepost_{name}"
        with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as conn:
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER fencepost STRATEGY FILE_COPY")
            conn.execute(statement.format(sql.Identifier(database), sql.Identifier(template)))
        keys, endpoint_keys, port = Keyring.generate(), Keyring.generate(), free_port()
        environ = {
            # The import path too: the programs under test are those of this checkout.
            **{each: os.environ[each] for each in ("PATH", "PYTHONPATH") if each in os.environ},
            "FENCEPOST_DATABASE_URL": server.url().replace("/fencepost?", f"/{database}?"),
            "FENCEPOST_HOME": str(folder / "home"),
            "FENCEPOST_KEYS": keys,
            "FENCEPOST_ENDPOINT_KEYS": endpoint_keys,
            "FENCEPOST_SECRET_KEY": "signs the cookies and cursors of tests",
            "FENCEPOST_ENVIRONMENT": "tests",
            "FENCEPOST_BIND": f"127.0.0.1:{port}",
            "FENCEPOST_TRUSTED_HOSTS": f"127.0.0.1,{ELSEWHERE}",
            **settings,
        }
        stage = Stage(
            server.superuser_url(database), Keyring.parse(endpoint_keys), Keyring.parse(keys)
        )
        log = folder / "log"
        url = f"http://127.0.0.1:{port}"
        made.append(Site(url, stage, environ, start(environ, log, url), log))
        return made[-1]

    yield make
    for site in made:
        stop(site.process)
        site.stage.close()
    for site in made:
        assert "Traceback" not in site.log.read_text()


@pytest.fixture(scope="session")
def site(make_site: Callable[..., Site]) -> Site:
    """The one that all tests share: each looks at a subscription of its own."""
    return make_site("browser")


@pytest.fixture(scope="session")
def lively(make_site: Callable[..., Site]) -> Iterator[Lively]:
    """One with a worker: every event is really sent, to a receiver that refuses it once."""
    allowed = {"FENCEPOST_ALLOW_HTTP": "1", "FENCEPOST_ALLOW_NETWORKS": "127.0.0.0/8"}
    site = make_site("lively", **allowed)
    with (
        Receiver(in_turn(404, 200)) as receiver,
        Program(site.environ, site.log.with_name("worker"), name="w"),
    ):
        wait_for_workers(site.stage.conn, 1)
        yield Lively(site, receiver)


@pytest.fixture(scope="session")
def empty_site(make_site: Callable[..., Site]) -> Site:
    """As somebody finds it who has just begun; nothing may be added to it but people."""
    return make_site("empty")


@pytest.fixture
def new_page(browser: Browser, site: Site) -> Iterator[Callable[..., Page]]:
    """Pages that are logged in; their console, their errors and their policy are watched."""
    contexts: list[BrowserContext] = []
    watched = Watched()

    def make(role: str | None = "operator", at: Site = site, **options: Any) -> Page:
        options = {
            "viewport": {"width": 1280, "height": 800},
            "base_url": at.url,
            "reduced_motion": "reduce",
            **options,
        }
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(15_000)
        context.add_init_script(TELL_VIOLATIONS)
        if role is not None:
            cookie = at.stage.user(f"{role} {len(contexts)} {os.urandom(3).hex()}", role)
            url = str(options["base_url"])
            context.add_cookies([{"name": "fencepost_session", "value": cookie, "url": url}])
        page = context.new_page()
        watched.watch(page, options["base_url"])
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


@pytest.fixture(scope="session")
def places(site: Site) -> Tour:
    """Every page, with something on it."""
    return tour(site.stage)


@pytest.fixture(scope="session")
def app(site: Site) -> Flask:
    """The application, to ask for its routes; it opens no connection."""
    return create_app(Settings.load(site.environ))
