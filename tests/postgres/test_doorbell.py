"""The doorbell rings for who sleeps, and for nobody else; nothing depends on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection, IsolationLevel

from conftest import MakeSettings
from factories import subscribe
from fencepost.errors import DatabaseUnavailableError
from fencepost.keyring import Keyring
from fencepost.store import doorbell
from fencepost.store.migrate import migrate
from receiver import Receiver
from waiting import eventually
from worker.bell import PROOF_SECONDS, Bell
from worker.build import Worker
from worker.doze import IDLE_SECONDS, MARK_SECONDS, SLEEPING_SECONDS, Doze
from worker.fanout import BREATH_SECONDS, FanOut
from worker.link import Link
from workers import WorkerThread

Connect = Callable[..., Connection[Any]]


@pytest.fixture
def connect(superuser_url: str) -> Iterator[Connect]:
    """Make connections in autocommit, which are closed at the end."""
    made: list[Connection[Any]] = []

    def make(**more: Any) -> Connection[Any]:
        made.append(psycopg.connect(superuser_url, autocommit=True, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def db(connect: Connect) -> Connection[Any]:
    return connect()


@pytest.fixture
def ear(connect: Connect) -> Connection[Any]:
    """It listens all the time, as the bell's connection does."""
    conn = connect()
    doorbell.listen(conn)
    return conn


@pytest.fixture
def links(db_url: str) -> Iterator[Callable[[str], Link]]:
    made: list[Link] = []

    def make(name: str) -> Link:
        made.append(Link(db_url, name=name))
        return made[-1]

    yield make
    for link in made:
        link.close()


class Sleeper:
    """A worker's fan-out, reduced to how it looks and sleeps."""

    def __init__(self, conn: Connection[Any]) -> None:
        self._conn = conn
        self.now, self.hears = 100.0, True
        self._doze = Doze(bell_works=lambda: self.hears, clock=lambda: self.now)

    def look(self) -> float | None:
        """Look once: None, something was there, or the seconds until the next look."""
        seen = doorbell.look(self._conn)
        if not seen.is_waiting:
            return self._doze.rest(self._conn, seen)
        self._doze.rouse(self._conn, seen)
        return None

    def fall_asleep(self) -> None:
        assert self.look() == 0
        assert self.look() == SLEEPING_SECONDS


@pytest.fixture
def sleeper(connect: Connect) -> Sleeper:
    return Sleeper(connect())


def publish(db: Connection[Any]) -> None:
    db.execute("SELECT webhook_publish('a.b', '{}')")


def rings(ear: Connection[Any]) -> int:
    return len(list(ear.notifies(timeout=0.3)))


def empty(db: Connection[Any]) -> None:
    db.execute("DELETE FROM webhook_outbox")


# who rings


def test_it_rings_only_while_somebody_sleeps(db: Connection[Any], ear: Connection[Any]) -> None:
    publish(db)
    assert rings(ear) == 0
    doorbell.fall_asleep(db, seconds=60)
    publish(db)
    assert rings(ear) == 1
    with db.transaction(force_rollback=True):
        publish(db)
    assert rings(ear) == 0
    doorbell.wake_up(db)
    publish(db)
    assert rings(ear) == 0


def test_nobody_rings_for_a_worker_that_has_died(db: Connection[Any], ear: Connection[Any]) -> None:
    doorbell.fall_asleep(db, seconds=-1)
    publish(db)
    assert rings(ear) == 0


def test_the_longest_name_of_a_schema_has_a_bell(
    db_url: str, connect: Connect, db: Connection[Any]
) -> None:
    schema = "s" * 63
    migrate(db_url, schema)
    place = {"options": f"-c search_path={schema}"}
    ear, producer = connect(**place), connect(**place)
    doorbell.listen(ear)
    doorbell.fall_asleep(producer, seconds=60)
    publish(producer)
    assert rings(ear) == 1
    publish(db)  # the schema beside it has a bell of its own
    assert rings(ear) == 0


# nothing is missed: each way in which a commit and falling asleep can cross


def test_an_insert_before_the_mark_is_seen_when_it_commits(
    sleeper: Sleeper, connect: Connect, ear: Connection[Any]
) -> None:
    producer = connect()
    with producer.transaction():
        publish(producer)  # nobody sleeps yet: it will not ring
        assert sleeper.look() == 0  # the mark
        pauses = [sleeper.look() for _ in range(8)]
        assert pauses[0] == pytest.approx(0.01)
        assert pauses[-1] == IDLE_SECONDS
    assert rings(ear) == 0
    assert sleeper.look() is None


def test_an_insert_before_the_mark_that_is_rolled_back_ends_the_watch(
    sleeper: Sleeper, connect: Connect
) -> None:
    producer = connect()
    with producer.transaction(force_rollback=True):
        publish(producer)
        assert sleeper.look() == 0
        assert sleeper.look() != SLEEPING_SECONDS
    assert sleeper.look() == SLEEPING_SECONDS


def test_a_transaction_with_a_higher_id_than_anything_completed_is_waited_for(
    sleeper: Sleeper, connect: Connect
) -> None:
    """A snapshot says nothing of ids beyond the last completed one: the id of the mark does."""
    first, second = connect(), connect()
    with first.transaction():
        publish(first)
        with second.transaction():
            publish(second)
            assert sleeper.look() == 0
            assert sleeper.look() != SLEEPING_SECONDS
        assert sleeper.look() is None


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_an_old_snapshot_does_not_hide_the_mark(
    level: IsolationLevel, sleeper: Sleeper, connect: Connect, ear: Connection[Any]
) -> None:
    producer = connect()
    producer.isolation_level = level
    with producer.transaction():
        producer.execute("SELECT count(*) FROM webhook_events")  # the snapshot, and no id yet
        sleeper.fall_asleep()
        publish(producer)
    assert rings(ear) == 1
    assert sleeper.look() is None


def test_an_insert_after_the_mark_rings_however_late_it_commits(
    sleeper: Sleeper, connect: Connect, ear: Connection[Any]
) -> None:
    producer = connect()
    assert sleeper.look() == 0
    with producer.transaction():
        publish(producer)
        assert sleeper.look() == SLEEPING_SECONDS  # it need not be waited for
    assert rings(ear) == 1
    assert sleeper.look() is None


def test_an_insert_while_another_worker_is_awake_is_that_workers(
    sleeper: Sleeper, db: Connection[Any], connect: Connect, ear: Connection[Any]
) -> None:
    other, producer = Sleeper(connect()), connect()
    sleeper.fall_asleep()
    other.fall_asleep()
    publish(db)
    assert other.look() is None  # takes the mark away
    empty(db)
    with producer.transaction():
        publish(producer)
        assert sleeper.look() == SLEEPING_SECONDS  # sleeps on
        assert other.look() == 0
        assert other.look() != SLEEPING_SECONDS
    assert rings(ear) == 1  # for the first event, none for the second
    assert other.look() is None


def test_readers_keep_nobody_awake(sleeper: Sleeper, connect: Connect) -> None:
    reader = connect()
    with reader.transaction():
        reader.execute("SELECT count(*) FROM webhook_events")
        sleeper.fall_asleep()


def test_a_transaction_open_for_hours_costs_looks_and_no_ring(
    sleeper: Sleeper, db: Connection[Any], connect: Connect, ear: Connection[Any]
) -> None:
    long = connect()
    with long.transaction():
        long.execute("SELECT pg_current_xact_id()")
        assert sleeper.look() == 0
        for _ in range(100):
            sleeper.look()
            sleeper.now += IDLE_SECONDS
        assert sleeper.look() == IDLE_SECONDS
        db.execute("SELECT setval('webhook_asleep_until', 0)")
        sleeper.now += SLEEPING_SECONDS
        sleeper.look()  # renews the mark
        publish(db)
        assert rings(ear) == 1


# the fan-out and the bell


def test_the_fan_out_falls_asleep_where_the_bell_works(
    db: Connection[Any], links: Callable[[str], Link], keyring: Keyring
) -> None:
    hears = [False]
    link = links("fanout")
    step = FanOut(
        link,
        keyring=keyring,
        worker_id="w",
        on_new=lambda: None,
        doze=Doze(bell_works=lambda: hears[0], clock=lambda: 100),
    )
    assert step() == IDLE_SECONDS
    assert not doorbell.look(db).is_marked
    hears[0] = True
    assert step() == 0
    assert step() == SLEEPING_SECONDS
    assert doorbell.look(db).is_marked
    publish(db)
    assert step() == BREATH_SECONDS
    assert not doorbell.look(db).is_marked
    assert not doorbell.look(db).is_waiting
    assert step() == 0
    assert step() == SLEEPING_SECONDS
    # A server that crashed has lost the mark, and the connection.
    doorbell.wake_up(db)
    link.close()
    assert step() == 0
    assert doorbell.look(db).is_marked


def test_who_cannot_fan_out_leaves_the_mark_to_who_does(
    db: Connection[Any], connect: Connect, links: Callable[[str], Link], keyring: Keyring
) -> None:
    step = FanOut(
        links("fanout"),
        keyring=keyring,
        worker_id="w",
        on_new=lambda: None,
        doze=Doze(bell_works=lambda: True, clock=lambda: 100),
    )
    step()
    publish(db)
    other = connect()
    with other.transaction():
        other.execute("SELECT pg_advisory_xact_lock(hashtextextended('webhook_fan_out', 0))")
        assert step() == IDLE_SECONDS
        assert doorbell.look(db).is_marked


def test_the_bell_is_trusted_while_its_own_ring_is_heard(
    db: Connection[Any], links: Callable[[str], Link]
) -> None:
    now, rung = [0.0], []
    bell = Bell(
        links("bell"), links("ringer"), on_ring=lambda: rung.append(1), clock=lambda: now[0]
    )
    assert not bell.works
    bell()
    assert bell.works
    assert rung == [1]  # from now on it listens: one look for what came before
    now[0] = 3 * PROOF_SECONDS
    assert not bell.works
    doorbell.fall_asleep(db, seconds=MARK_SECONDS)
    publish(db)
    eventually(lambda: bell() == 0 and len(rung) > 1 and bell.works)


def test_a_bell_that_breaks_is_not_trusted_and_nobody_sleeps_on(
    db: Connection[Any], links: Callable[[str], Link]
) -> None:
    link, rung = links("bell"), []
    bell = Bell(link, links("ringer"), on_ring=lambda: rung.append(1), clock=lambda: 0.0)
    bell()
    with link.use() as listening:
        db.execute("SELECT pg_terminate_backend(%s, 30000)", (listening.info.backend_pid,))
    rung.clear()
    with pytest.raises(DatabaseUnavailableError):
        bell()
    assert rung == [1]
    assert not bell.works
    bell()
    assert bell.works
    assert rung == [1, 1]


def test_a_bell_that_is_not_heard_is_not_trusted(
    links: Callable[[str], Link], conn: Connection[Any]
) -> None:
    elsewhere = Link(conn.info.dsn, name="ringer")  # in another database nobody hears it
    bell = Bell(links("bell"), elsewhere, on_ring=lambda: None, clock=lambda: 0.0)
    bell()
    assert not bell.works
    elsewhere.close()


def test_without_a_doorbell_nobody_listens_and_nobody_is_asked_to_ring(
    db: Connection[Any],
    db_url: str,
    settings: MakeSettings,
    endpoint_keyring: Keyring,
) -> None:
    with Receiver() as receiver, WorkerThread(Worker(settings(db_url, doorbell=False))):
        subscribe(db, endpoint_keyring, receiver.url)
        publish(db)
        eventually(lambda: len(receiver.requests) == 1)
        assert not doorbell.look(db).is_marked
        publish(db)
        eventually(lambda: len(receiver.requests) == 2)
        assert not doorbell.look(db).is_marked
        assert db.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'fencepost worker bell'"
        ).fetchone() == (0,)
