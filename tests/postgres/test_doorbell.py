"""The doorbell rings for who sleeps, and for nobody else; nothing depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from fencepost.keyring import Keyring
from fencepost.store import doorbell
from waiting import eventually
from worker.bell import PROOF_SECONDS, Bell
from worker.fanout import IDLE_SECONDS, SLEEPING_SECONDS, FanOut
from worker.link import Link


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def links(db_url: str) -> Iterator[Any]:
    made: list[Link] = []

    def make(name: str) -> Link:
        made.append(Link(db_url, name=name))
        return made[-1]

    yield make
    for link in made:
        link.close()


def publish(db: Connection[Any]) -> None:
    db.execute("SELECT webhook_publish('a.b', '{}')")


def rings(db: Connection[Any]) -> int:
    return len(list(db.notifies(timeout=0.3)))


def test_it_rings_only_while_somebody_sleeps(db: Connection[Any], superuser_url: str) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as ear:
        doorbell.listen(ear, "public")
        publish(db)
        assert rings(ear) == 0
        doorbell.fall_asleep(db)
        publish(db)
        assert rings(ear) == 1
        with db.transaction(force_rollback=True):
            publish(db)
        assert rings(ear) == 0
        doorbell.wake_up(db)
        publish(db)
        assert rings(ear) == 0


def test_an_idle_fan_out_falls_asleep_where_the_bell_works(
    db: Connection[Any], links: Any, keyring: Keyring
) -> None:
    now = [0.0]
    works = [False]
    step = FanOut(
        links("fanout"),
        keyring=keyring,
        worker_id="w",
        on_new=lambda: None,
        bell_works=lambda: works[0],
        clock=lambda: now[0],
    )

    def is_asleep() -> bool:
        return db.execute("SELECT is_asleep FROM webhook_doorbell").fetchone() == (True,)

    now[0] = 100
    assert step() == IDLE_SECONDS
    assert not is_asleep()
    works[0] = True
    assert step() == 0  # one more look, after the wish was written
    assert step() == SLEEPING_SECONDS
    assert is_asleep()
    publish(db)
    step()
    assert not is_asleep()
    assert db.execute("SELECT count(*) FROM webhook_outbox").fetchone() == (0,)


def test_the_bell_is_trusted_while_its_own_ring_is_heard(db: Connection[Any], links: Any) -> None:
    now, rung = [0.0], []
    bell = Bell(
        links("bell"),
        links("ringer"),
        schema="public",
        on_ring=lambda: rung.append(1),
        clock=lambda: now[0],
    )
    assert not bell.works
    bell()
    assert bell.works
    assert rung == []
    now[0] = 3 * PROOF_SECONDS
    assert not bell.works
    doorbell.fall_asleep(db)
    publish(db)
    eventually(lambda: bell() == 0 and rung and bell.works)


def test_a_bell_that_is_not_heard_is_not_trusted(links: Any) -> None:
    bell = Bell(
        links("bell"), links("ringer"), schema="other", on_ring=lambda: None, clock=lambda: 0.0
    )
    bell()
    assert not bell.works
