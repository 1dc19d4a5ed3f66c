"""What the hub reads: every commit once, however late, and from wherever a reader stands."""

from __future__ import annotations

import psycopg
from flask import Flask

from dashboard.live_source import DatabaseSource
from dashboard.models import db
from dashboard.signals import Trail, Wanted
from fencepost.filters import DeliveryFilter
from fencepost.store import changes, replays
from stage import Stage


def test_a_look_finds_what_is_new_once(source: DatabaseSource, stage: Stage) -> None:
    sub = stage.subscription()
    stage.deliveries(sub.id)
    first = source.look(Wanted())
    assert first.trail == Trail(), "what was there before the first look is no news"
    stage.dead(sub.id, 2)
    assert source.look(Wanted()).trail == Trail(moved=True, died=2, queue_changed=True)
    assert source.look(Wanted()).trail == Trail()


def test_who_gives_a_dead_letter_up_kills_nobody(source: DatabaseSource, stage: Stage) -> None:
    (dead,) = stage.dead(stage.subscription().id, 1)
    source.look(Wanted())
    stage.discard(dead)
    assert source.look(Wanted()).trail == Trail(moved=True, died=0, queue_changed=True)


def test_a_commit_is_found_however_late_it_comes(
    source: DatabaseSource, stage: Stage, superuser_url: str
) -> None:
    """Rows appear in the order of commits, not of their times, and not of their transactions."""
    (one, *_) = stage.deliveries(stage.subscription().id, 2)
    with psycopg.connect(superuser_url) as slow:
        slow.execute(
            "INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, created_at)"
            " VALUES (%s, 3, 'LEASED', fencepost_now() - interval '1 h')",
            (one,),
        )
        source.look(Wanted())
        for _ in range(3):
            stage.deliveries(stage.subscription(f"other {_}").id)
            assert source.look(Wanted()).trail.moved
            assert not source.look(Wanted()).trail.moved
        slow.commit()
    assert source.look(Wanted()).trail.moved
    assert not source.look(Wanted()).trail.moved


def test_more_than_is_counted_is_a_change_of_everything(
    source: DatabaseSource, stage: Stage
) -> None:
    sub = stage.subscription()
    before = source.look(Wanted())
    stage.deliveries(sub.id, changes.MOST // 2 + 1)
    found = source.look(Wanted(since=before.mark))
    assert (found.trail.moved, found.trail.queue_changed) == (True, True)
    assert found.resumed is None, "too far behind to be told"
    assert source.look(Wanted()).trail == Trail()


def test_another_process_goes_on_from_a_mark(
    source: DatabaseSource, app: Flask, stage: Stage
) -> None:
    sub = stage.subscription()
    mark = source.look(Wanted()).mark
    with app.app_context():
        other = DatabaseSource(db.engine)
    assert other.look(Wanted(since=mark)).resumed == Trail()
    stage.dead(sub.id, 1)
    newer = other.look(Wanted(since=mark))
    assert newer.resumed == Trail(moved=True, died=1, queue_changed=True)
    assert source.look(Wanted(since=newer.mark)).resumed == Trail()
    assert source.look(Wanted(since=10**17)).resumed is None, "a number of another cluster"


def test_what_became_of_a_replays_deliveries_is_news_when_it_is_counted(
    source: DatabaseSource, stage: Stage
) -> None:
    (dead,) = stage.dead(stage.subscription().id, 1)
    with stage.conn.transaction():
        replay = replays.draft_replay(stage.conn, DeliveryFilter(), reason="mended", actor="test")
        replays.start_replay(stage.conn, replay.id, actor="test")
    stage.requeue()
    stage.send(dead, 200)
    wanted = Wanted(replays=frozenset({replay.id}))
    source.look(wanted)
    assert not source.look(wanted).changed
    stage.count_outcomes()
    assert source.look(wanted).changed == {replay.id}
