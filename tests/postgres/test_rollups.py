"""Each row of the trail is counted once, whenever its transaction commits, and whoever counts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from factories import make_deliveries, make_subscription, pass_time
from fencepost.cells import Measure
from fencepost.figures import MEASURES, Figures, Window
from fencepost.histograms import RELATIVE_ERROR, SMALLEST_MS, Histogram
from fencepost.segments import WaitedFor
from fencepost.store.conditions import read_clock
from fencepost.store.figures import read_figures, read_figures_of_each
from fencepost.store.leases import reap_expired
from fencepost.store.rollups import Rolled, read_progress, roll_up, take_rollup
from journeys import attempt, deliver, fail
from random_trails import Told, Walker, insert, tell
from rolling import ALL_TRANSACTIONS, roll

SHARES = (0.5, 0.95, 0.99, 1.0)
Connect = Callable[[], Connection[Any]]


@pytest.fixture
def connect(superuser_url: str) -> Iterator[Connect]:
    made: list[Connection[Any]] = []

    def make() -> Connection[Any]:
        made.append(psycopg.connect(superuser_url, autocommit=True))
        return made[-1]

    yield make
    for connection in made:
        connection.close()


@pytest.fixture
def db(connect: Connect) -> Connection[Any]:
    connection = connect()
    connection.execute("UPDATE webhook_rollup_progress SET begun_at = '2020-01-01'")
    return connection


def figures(conn: Connection[Any], sub: UUID | None = None) -> Figures:
    now = read_clock(conn)
    window = Window(now - timedelta(days=365), now + timedelta(days=365))
    return read_figures(conn, window, sub)


def agree(found: Figures, told: Told) -> None:
    """Compare counts exactly, percentiles within the stated error."""
    for name, count in told.counts.items():
        assert getattr(found, name) == count, name
    assert found.dead_by_reason == dict(told.dead)
    for kind, measures in MEASURES.items():
        compare(found.histogram(*measures), told, kind)
    for reason in WaitedFor:
        if reason is not WaitedFor.PAUSED:
            measure = Measure[f"WAITING_{reason.upper()}"]
            compare(found.histogram(measure), told, f"waiting_{reason}")


def compare(histogram: Histogram, told: Told, kind: str) -> None:
    assert histogram.total == len(told.durations[kind]), kind
    for share in SHARES if histogram.total else ():
        assert histogram.percentile(share) == pytest.approx(
            told.nearest_rank(kind, share), rel=RELATIVE_ERROR * (1 + 1e-6), abs=SMALLEST_MS
        ), (kind, share)


def walkers(db: Connection[Any], sub: UUID, count: int, chance: random.Random) -> list[Walker]:
    """Make deliveries without trails, on both sides of a border between partitions."""
    rows = db.execute(
        "INSERT INTO webhook_deliveries (id, event_id, subscription_id, event_type, current_state,"
        " seq, max_attempts, next_attempt_at)"
        " SELECT fencepost_uuid7(date_bin('1 day', fencepost_now(), 'epoch')"
        "                        + (n %% 2 - 1) * interval '1 ms'), gen_random_uuid(), %s, 'a.b',"
        "        'ENCRYPTED', 2, 5, fencepost_now() FROM generate_series(1, %s) AS n RETURNING id",
        (sub, count),
    ).fetchall()
    now = read_clock(db)
    return [Walker(row[0], now - timedelta(days=9 * chance.random()), chance) for row in rows]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_figures_are_those_of_the_trails_in_whatever_order_they_were_committed(
    db: Connection[Any], connect: Connect, seed: int
) -> None:
    chance = random.Random(seed)
    subs = [make_subscription(db), make_subscription(db)]
    of_each = {sub: walkers(db, sub, 25, chance) for sub in subs}
    everyone = of_each[subs[0]] + of_each[subs[1]]
    late: dict[UUID, Connection[Any]] = {}
    idle = [connect() for _ in range(6)]
    for turn in range(700):
        free = [one for one in everyone if one.id not in late]
        walker = chance.choice(free)
        if idle and chance.random() < 0.1:  # its transaction goes on for a while
            slow = late[walker.id] = idle.pop()
            slow.execute("BEGIN")
            if chance.random() < 0.5:
                slow.execute("SAVEPOINT inner_one")
            insert(slow, walker.step())
        else:
            with db.transaction():
                insert(db, walker.step())
        if late and chance.random() < 0.1:
            done = late.pop(chance.choice(list(late)))
            done.execute("COMMIT")
            idle.append(done)
        if turn % 50 == 25:
            roll(db, chance.choice([3, 20, ALL_TRANSACTIONS]))
    for slow in late.values():
        slow.execute("COMMIT")
    while not roll(db, 100).is_caught_up:
        pass
    for sub, made in of_each.items():
        agree(figures(db, sub), tell(db, (one.id for one in made)))
    agree(figures(db), tell(db, (one.id for one in everyone)))


def test_a_commit_that_comes_late_is_added_to_its_own_minute(
    db: Connection[Any], connect: Connect
) -> None:
    sub = make_subscription(db)
    ids = make_deliveries(db, sub, 2)
    roll(db)
    slow = connect()
    slow.execute("BEGIN")
    (late,) = ids[:1]
    slow.execute("SELECT FROM webhook_deliveries WHERE id = %s FOR UPDATE", (late,))
    began = read_clock(slow)
    fail_late(slow, late)
    deliver(db, ids[1:])
    pass_time(db, 7200)  # two hours on, many transactions later
    for _ in range(20):
        make_deliveries(db, sub)
        roll(db)
    assert (figures(db, sub).failed, figures(db, sub).delivered) == (0, 1)
    assert read_progress(db).pending
    slow.execute("COMMIT")
    roll(db)
    assert not read_progress(db).pending
    then = Window(began, began + timedelta(minutes=2))
    found = read_figures(db, then, sub)
    assert (found.failed, found.attempts, found.retries) == (1, 2, 0)
    roll(db)
    assert figures(db, sub).failed == 1


def fail_late(conn: Connection[Any], late: UUID) -> None:
    """Write what a worker would, in a transaction that somebody else's order keeps open."""
    conn.execute(
        "INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, detail)"
        " VALUES (%(id)s, 3, 'LEASED', NULL), (%(id)s, 4, 'ATTEMPTED', '{\"attempt\": 1}'),"
        "        (%(id)s, 5, 'FAILED', '{\"class\": \"dns\"}'), (%(id)s, 6, 'RETRIED', NULL)",
        {"id": late},
    )


def test_what_was_rolled_back_is_not_counted(db: Connection[Any], connect: Connect) -> None:
    (id_,) = make_deliveries(db, sub := make_subscription(db))
    slow = connect()
    slow.execute("BEGIN")
    fail_late(slow, id_)
    roll(db)
    slow.execute("ROLLBACK")
    roll(db)
    assert (figures(db, sub).failed, read_progress(db).pending) == (0, [])


def test_only_one_of_two_workers_counts(db: Connection[Any], connect: Connect) -> None:
    deliver(db, make_deliveries(db, sub := make_subscription(db), 3))
    other = connect()
    with db.transaction():
        assert take_rollup(db)
        roll_up(db, transactions=ALL_TRANSACTIONS)
        with other.transaction():
            assert not take_rollup(other)
        assert figures(other, sub).delivered == 0
    roll(other)
    assert figures(other, sub).delivered == 3


def test_a_crash_between_leaves_all_of_it_to_the_next(
    db: Connection[Any], connect: Connect
) -> None:
    deliver(db, make_deliveries(db, sub := make_subscription(db), 3))
    dying = connect()
    dying.execute("BEGIN")
    assert take_rollup(dying)
    assert roll_up(dying, transactions=ALL_TRANSACTIONS).rows == 15
    db.execute("SELECT pg_terminate_backend(%s, 5000)", (dying.info.backend_pid,))
    with pytest.raises(psycopg.OperationalError):
        dying.execute("COMMIT")
    assert figures(db, sub).delivered == 0
    roll(db)
    assert figures(db, sub).delivered == 3


def test_nothing_new_changes_nothing(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    assert roll(db).is_caught_up
    assert figures(db, sub) == figures(db) == Figures()
    assert figures(db).percentiles() == ()
    deliver(db, make_deliveries(db, sub))
    roll(db)
    before = figures(db)
    again = roll(db)
    assert (again, figures(db)) == (Rolled(0, is_caught_up=True), before)


def test_a_backlog_is_counted_in_parts(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    roll(db)
    for _ in range(10):
        deliver(db, make_deliveries(db, sub))
    assert not roll(db, 12).is_caught_up
    counted = figures(db, sub).received
    assert 0 < counted < 10
    runs: Sequence[Rolled] = [roll(db, 12)]
    while not runs[-1].is_caught_up:
        runs = [*runs, roll(db, 12)]
    assert len(runs) > 1
    assert figures(db, sub).delivered == 10


def test_every_visit_counts_by_itself(db: Connection[Any]) -> None:
    ids = make_deliveries(db, sub := make_subscription(db))
    for turn in range(3):
        pass_time(db, turn * 10)
        fail(db, ids, delay=5)
    pass_time(db, 30)
    deliver(db, ids)
    roll(db)
    found = figures(db, sub)
    assert found.histogram(Measure.IN_FLIGHT).total == 4
    assert found.histogram(Measure.SLEEPING).total == 3
    assert found.histogram(Measure.TOTAL).total == 1
    assert (found.ended, found.retries, found.first_delivered) == (4, 3, 0)
    assert (found.retry_rate, found.first_try_rate, found.tries_per_delivery) == (0.75, 0, 4)
    agree(found, tell(db, ids))


def test_expiries_and_refused_writes_are_counted(db: Connection[Any]) -> None:
    sub, other = make_subscription(db), make_subscription(db)
    ids = make_deliveries(db, sub, 2)
    attempt(db, ids)
    roll(db)
    pass_time(db, 60)
    reap_expired(db, worker_id="b-1")
    db.execute(
        "INSERT INTO webhook_fenced_writes (delivery_id, worker_id, fencing_token, would_write)"
        " VALUES (%s, 'a-1', 1, 'DELIVERED')",
        ids[:1],
    )
    roll(db)
    now = read_clock(db)
    window = Window(now - timedelta(hours=1), now + timedelta(hours=1))
    found = read_figures_of_each(db, window, [sub, other])
    assert (found[sub].lease_expiries, found[sub].fenced, found[sub].ended) == (2, 1, 2)
    assert found[other] == Figures()
    assert figures(db).fenced == 1


def test_another_cluster_begins_anew(db: Connection[Any]) -> None:
    """A dump restored elsewhere: numbers of transactions mean others there."""
    deliver(db, make_deliveries(db, sub := make_subscription(db)))
    db.execute("UPDATE webhook_rollup_progress SET upto = 1::bigint << 40")
    assert roll(db).is_caught_up
    assert read_progress(db).upto < 1 << 40
    roll(db)
    assert figures(db) == Figures()
    deliver(db, make_deliveries(db, sub))
    roll(db)
    assert figures(db).delivered == 1


def test_what_an_older_version_wrote_is_left_out(db: Connection[Any]) -> None:
    ids = make_deliveries(db, make_subscription(db))
    db.execute("UPDATE webhook_rollup_progress SET begun_at = fencepost_now()")
    roll(db)
    assert figures(db) == Figures()
    deliver(db, ids)
    roll(db)
    assert (figures(db).received, figures(db).delivered) == (0, 1)
    assert figures(db).histogram(Measure.WAITING_WORKER).total == 1
