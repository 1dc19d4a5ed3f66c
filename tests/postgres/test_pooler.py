"""Through a real PgBouncer that lends connections by the transaction."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection, sql

from conftest import MakeSettings
from dashboard import create_app
from dashboard.models import db as models
from factories import subscribe
from fencepost import publish
from fencepost.cli import checks
from fencepost.errors import SchemaError, SettingsError
from fencepost.keyring import Keyring
from fencepost.producer import Producer
from fencepost.store import doorbell
from fencepost.store.migrate import migrate
from fencepost.store.pool import connect
from fencepost.store.session import Role
from invariants import check
from pooler import Pooler, pooling
from receiver import Receiver
from stage import Stage
from waiting import eventually
from worker.bell import Bell
from worker.build import Worker
from worker.link import Link
from workers import WorkerThread

MakeLogin = Callable[..., str]


@pytest.fixture
def pooler(db_url: str) -> Iterator[Pooler]:
    """Two connections to the server for each login, however many clients it has."""
    with pooling(db_url, connections=2) as running:
        yield running


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as conn:
        yield conn


@pytest.fixture
def bare_login(db: Connection[Any]) -> Iterator[MakeLogin]:
    """Make logins that may act as a role, and bring nothing; they are gone afterwards."""
    made: list[sql.Identifier] = []

    def make(role: Role) -> str:
        name = f"{db.info.dbname}_{role}"
        made.append(sql.Identifier(name))
        db.execute(sql.SQL("CREATE ROLE {} LOGIN").format(made[-1]))
        return name

    yield make
    for name in made:
        db.execute(
            "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE usename = %s",
            (name.as_string(db).strip('"'),),
        )
        db.execute(sql.SQL("DROP ROLE {}").format(name))


@pytest.fixture
def login(pooler: Pooler, db: Connection[Any], bare_login: MakeLogin) -> MakeLogin:
    """Make logins as the refusal of a bare one says."""

    def make(role: Role) -> str:
        name = bare_login(role)
        with pytest.raises(SettingsError) as refusal:
            connect(pooler.url(name), role=role)
        for statement in statements(refusal.value):
            db.execute(statement.encode())
        pooler.reconnect()
        return name

    return make


def statements(refusal: SettingsError) -> list[str]:
    listed = re.search(r"administrator: (.*); and let the pooler RECONNECT$", str(refusal))
    assert listed is not None, refusal
    return listed[1].split("; ")


LEFT_BEHIND = """
SELECT 'setting ' || name FROM pg_settings
 WHERE source = 'session'  -- but what the pooler itself sets for each client
   AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone')
UNION ALL SELECT 'listens on ' || c FROM pg_listening_channels() c
UNION ALL SELECT 'prepared ' || name FROM pg_prepared_statements
UNION ALL SELECT 'cursor ' || name FROM pg_cursors WHERE name <> ''
UNION ALL SELECT 'lock' FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
UNION ALL SELECT 'scratch ' || relname FROM pg_class WHERE relnamespace = pg_my_temp_schema()
"""


def left_behind(pooler: Pooler, login: str) -> list[str]:
    """Look at both of a login's connections, as the pooler's next clients would find them."""
    first, second = (psycopg.connect(pooler.url(login), prepare_threshold=None) for _ in range(2))
    with first, second:
        pids = {conn.execute("SELECT pg_backend_pid()").fetchone() for conn in (first, second)}
        assert len(pids) == 2
        return [row[0] for conn in (first, second) for row in conn.execute(LEFT_BEHIND)]


@pytest.mark.parametrize("role", ["worker", "dashboard", "producer"])
def test_the_refusal_of_a_bare_login_says_how_it_is_mended(
    role: Role, pooler: Pooler, login: MakeLogin
) -> None:
    name = login(role)
    with connect(pooler.url(name), role=role) as conn:
        found = conn.execute(
            "SELECT current_user::text, current_schema()::text, current_setting('jit'),"
            " current_setting('statement_timeout'), to_regclass('webhook_outbox') IS NOT NULL"
        ).fetchone()
        assert found == (f"fencepost_{role}", "public", "off", "15s", True)
    assert left_behind(pooler, name) == []


def test_a_refused_program_leaves_nothing_behind(pooler: Pooler, bare_login: MakeLogin) -> None:
    name = bare_login("worker")
    with pytest.raises(SettingsError):
        connect(pooler.url(name), role="worker")
    assert left_behind(pooler, name) == []


def test_two_programs_do_not_share_a_login(pooler: Pooler, login: MakeLogin) -> None:
    name = login("worker")
    with pytest.raises(SettingsError, match="fencepost_dashboard") as refusal:
        connect(pooler.url(name), role="dashboard")
    assert "jit" not in str(refusal.value)  # names what lacks, and no more


def test_a_schema_of_its_own_is_asked_for(
    pooler: Pooler, db: Connection[Any], login: MakeLogin
) -> None:
    name = login("worker")
    with pytest.raises(SettingsError) as refusal:
        connect(pooler.url(name), role="worker", schema="of, its own")
    for statement in statements(refusal.value):
        db.execute(statement.encode())
    pooler.reconnect()
    with connect(pooler.url(name), role="worker", schema="of, its own") as conn:
        assert conn.execute("SHOW search_path").fetchone() == ('"of, its own", pg_temp',)


def test_a_login_behind_a_pooler_may_have_limits_of_its_own_but_not_none(
    pooler: Pooler, db: Connection[Any], login: MakeLogin
) -> None:
    name = login("dashboard")
    change = sql.SQL("ALTER ROLE {} IN DATABASE {} SET statement_timeout = {}")
    database = sql.Identifier(db.info.dbname)
    for setting in ("2s", "0"):
        db.execute(change.format(sql.Identifier(name), database, sql.Literal(setting)))
        pooler.reconnect()
        if setting == "0":
            with pytest.raises(SettingsError, match="statement_timeout"):
                connect(pooler.url(name), role="dashboard")
        else:
            connect(pooler.url(name), role="dashboard").close()


def test_nothing_is_asked_of_a_direct_connection(db_url: str) -> None:
    with connect(db_url, role="worker") as conn:
        assert conn.prepare_threshold is not None


def test_a_migration_is_refused(pooler: Pooler, db_url: str) -> None:
    name = str(psycopg.conninfo.conninfo_to_dict(db_url)["user"])
    with pytest.raises(SchemaError, match="own address"):
        migrate(pooler.url(name))
    assert left_behind(pooler, name) == []


def test_the_bell_does_not_listen_through_a_pooler(pooler: Pooler, login: MakeLogin) -> None:
    name = login("worker")
    link, ringer = (Link(pooler.url(name), name=part) for part in ("bell", "ringer"))
    bell = Bell(link, ringer, on_ring=lambda: None, clock=lambda: 0.0)
    assert bell() > 0
    assert bell() > 0
    assert not bell.works
    assert left_behind(pooler, name) == []
    link.close()
    ringer.close()


def test_the_doctor_says_what_a_pooler_costs(pooler: Pooler, db_url: str, login: MakeLogin) -> None:
    with connect(pooler.url(login("dashboard")), role="dashboard") as conn:
        (found,) = checks.check_bell(conn)
        assert (found.level, found.subject) == ("warning", "doorbell")
    with connect(db_url, role="dashboard") as conn:
        assert list(checks.check_bell(conn)) == []


def test_everything_works_through_it_and_leaves_nothing_behind(
    pooler: Pooler,
    db: Connection[Any],
    superuser_url: str,
    login: MakeLogin,
    settings: MakeSettings,
    endpoint_keyring: Keyring,
) -> None:
    """Worker, dashboard and producers at once, each with more clients than connections."""
    names = {role: login(role) for role in ("worker", "dashboard", "producer")}
    stage = Stage(superuser_url, endpoint_keyring)
    app = create_app(settings(pooler.url(names["dashboard"])), streams=3)
    worker = Worker(settings(pooler.url(names["worker"]), lease_seconds=2))
    producer = Producer.of(settings(pooler.url(names["producer"])))
    with (
        Receiver() as receiver,
        WorkerThread(worker),
        psycopg.connect(pooler.url(names["producer"]), prepare_threshold=None) as one,
        psycopg.connect(pooler.url(names["producer"]), prepare_threshold=None) as other,
    ):
        subscribe(db, endpoint_keyring, receiver.url)
        viewer = app.test_client()
        viewer.set_cookie("fencepost_session", stage.user("v", "viewer"))
        for n in range(20):
            with one.transaction(), other.transaction():
                publish(one, "a.b", {"n": n}, producer=producer)
                other.execute("SELECT webhook_publish('a.b', '{}')")
            assert viewer.get("/overview").status_code == 200
            assert viewer.get("/deliveries").status_code == 200
        eventually(
            lambda: (
                db.execute(
                    "SELECT count(*) FROM webhook_deliveries WHERE current_state = 'DELIVERED'"
                ).fetchone()
                == (40,)
            )
        )
        assert not doorbell.look(db).is_marked  # nobody would hear a ring
    for role, name in names.items():
        assert left_behind(pooler, name) == [], role
    check(db)
    app.extensions["fencepost"].hub.close()
    with app.app_context():
        models.engine.dispose()
    stage.close()
