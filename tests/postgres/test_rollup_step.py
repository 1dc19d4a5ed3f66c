"""The worker's step: one of many counts, a backlog is worked off, and nothing stops it for long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from conftest import MakeSettings
from factories import make_deliveries, make_subscription, pass_time, subscribe
from fencepost.figures import Window
from fencepost.keyring import Keyring
from fencepost.store import rollups
from fencepost.store.conditions import read_clock
from fencepost.store.figures import read_as_of, read_figures
from journeys import deliver
from receiver import Receiver
from waiting import eventually
from worker import rollup
from worker.build import Worker
from worker.link import Link
from worker.rollup import INTERVAL, RollupStep
from workers import WorkerThread

MakeStep = Callable[[], RollupStep]


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def make_step(db_url: str) -> Iterator[MakeStep]:
    links: list[Link] = []

    def make() -> RollupStep:
        links.append(Link(db_url, name="rollup"))
        return RollupStep(links[-1], keep=timedelta(days=30))

    yield make
    for link in links:
        link.close()


def delivered(db: Connection[Any]) -> int:
    now = read_clock(db)
    return read_figures(db, Window(now - timedelta(hours=2), now + timedelta(hours=2))).delivered


def test_it_runs_every_few_seconds_over_all_workers(
    db: Connection[Any], make_step: MakeStep
) -> None:
    one, other = make_step(), make_step()
    deliver(db, make_deliveries(db, make_subscription(db), 3))
    while one() == 0:  # transactions since the template was made, of which there may be many
        pass
    assert delivered(db) == 3
    deliver(db, make_deliveries(db, make_subscription(db)))
    assert 0 < other() <= INTERVAL.total_seconds()
    assert delivered(db) == 3
    pass_time(db, INTERVAL.total_seconds())
    assert other() == INTERVAL.total_seconds()
    assert delivered(db) == 4


def test_who_comes_second_leaves_it_to_the_first(db: Connection[Any], make_step: MakeStep) -> None:
    deliver(db, make_deliveries(db, make_subscription(db)))
    step = make_step()
    with db.transaction():
        assert rollups.take_rollup(db)
        assert step() == INTERVAL.total_seconds()
        assert delivered(db) == 0
    while step() == 0:  # transactions since the template was made, of which there may be many
        pass
    assert delivered(db) == 1


def test_a_backlog_is_worked_off_at_once_and_in_larger_parts(
    db: Connection[Any], make_step: MakeStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup, "FIRST", 4)
    sub = make_subscription(db)
    step, as_of = make_step(), read_as_of(db)
    for _ in range(20):
        deliver(db, make_deliveries(db, sub))
    runs = 1
    while step() == 0:
        assert read_as_of(db) == as_of  # not before all of it is counted
        runs += 1
    assert delivered(db) == 20
    assert 2 < runs < 20
    assert read_as_of(db) > as_of


def test_parts_that_bring_too_much_or_take_too_long_become_smaller(
    db: Connection[Any], make_step: MakeStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup, "FIRST", 64)
    monkeypatch.setattr(rollup, "ENOUGH", 40)
    asked: list[int] = []
    limit = 0
    roll_up = rollups.roll_up

    def limited(conn: Connection[Any], *, transactions: int) -> rollups.Rolled:
        asked.append(transactions)
        conn.execute("SELECT set_config('statement_timeout', %s, true)", (f"{limit}us",))
        return roll_up(conn, transactions=transactions)

    monkeypatch.setattr(rollups, "roll_up", limited)
    sub, step = make_subscription(db), make_step()
    while step() == 0:
        pass
    step = make_step()
    for _ in range(30):
        deliver(db, make_deliveries(db, sub, 5))
    asked.clear()
    pass_time(db, INTERVAL.total_seconds())
    while step() == 0:
        pass
    assert asked[:2] == [64, 32]
    assert delivered(db) == 150
    limit, small = 1000, asked[-1]
    for _ in range(300):  # more than a millisecond's work
        make_deliveries(db, sub, 20)
    pass_time(db, 2 * INTERVAL.total_seconds())
    with pytest.raises(psycopg.errors.QueryCanceled):
        step()
    limit = 0
    step()
    assert asked[-1] == max(rollup.FEWEST, small // 4)


def test_a_worker_keeps_the_figures(
    db: Connection[Any], db_url: str, settings: MakeSettings, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver, WorkerThread(Worker(settings(db_url))):
        subscribe(db, endpoint_keyring, receiver.url)
        db.execute("SELECT webhook_publish('a.b', '{}') FROM generate_series(1, 5)")
        eventually(lambda: delivered(db) == 5)
