"""A story read from the database: whole, in parts, and with what stands around it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection

from factories import make_deliveries, make_subscription
from fencepost.errors import NotFoundError
from fencepost.store.stories import ROWS_AT_ONCE, read_story
from journeys import deliver, fail


@pytest.fixture
def db(superuser: Connection[Any]) -> Iterator[Connection[Any]]:
    with superuser.transaction(force_rollback=True):
        yield superuser


def test_a_story_holds_the_whole_trail_and_explains_it(db: Connection[Any]) -> None:
    ids = make_deliveries(db, make_subscription(db, name="shop"))
    fail(db, ids, delay=0)
    deliver(db, ids)
    story = read_story(db, ids[0])
    assert len(story.timeline.rows) == story.delivery.seq
    assert story.explanation.state.startswith("shop answered ")
    assert (story.older, story.newer) == (None, None)
    assert not story.about.is_paused
    with pytest.raises(NotFoundError):
        read_story(db, uuid4())


def test_parts_follow_each_other_from_the_newest_back(db: Connection[Any]) -> None:
    ids = make_deliveries(db, make_subscription(db))
    for _ in range(3):
        fail(db, ids, delay=0)
    whole = read_story(db, ids[0])
    story = read_story(db, ids[0], limit=5)
    assert story.timeline.rows == whole.timeline.rows[-5:]
    assert story.newer is None
    told = list(story.timeline.segments)
    while story.older is not None:
        story = read_story(db, ids[0], before=story.older, limit=5)
        assert story.newer is not None
        told = [*story.timeline.segments, *told]
    assert story.timeline.rows[0].seq == 1
    settled = [each for each in told if not each.is_open]
    assert settled == [each for each in whole.timeline.segments if not each.is_open]
    assert read_story(db, ids[0], limit=ROWS_AT_ONCE).timeline.rows == whole.timeline.rows


def test_a_part_beyond_the_trail_is_its_end_or_nothing(db: Connection[Any]) -> None:
    ids = make_deliveries(db, make_subscription(db))
    beyond = read_story(db, ids[0], before=10**6, limit=5)
    assert beyond.timeline.rows == ()
    assert (beyond.older, beyond.newer) == (None, None)
    first = read_story(db, ids[0], before=1, limit=5)
    assert [row.seq for row in first.timeline.rows] == [1]


def test_workers_count_while_they_report_themselves(db: Connection[Any]) -> None:
    ids = make_deliveries(db, make_subscription(db))
    assert read_story(db, ids[0]).about.last_beat is None
    for name, age, state in (("a", 1, "running"), ("b", 40, "running"), ("c", 1, "stopped")):
        db.execute(
            "INSERT INTO webhook_workers (worker_id, node, version, transport, concurrency, state,"
            " beat_at) VALUES (%s, 'n', '1', 'requests', 1, %s, fencepost_now() - %s)",
            (name, state, timedelta(seconds=age)),
        )
    about = read_story(db, ids[0]).about
    assert about.workers == 1
    assert about.last_beat is not None


def test_an_ordered_delivery_knows_which_one_it_waits_for(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    (first,), (second,) = (
        make_deliveries(db, sub),
        make_deliveries(db, sub, due="fencepost_now() + '1 h'"),
    )
    db.execute("UPDATE webhook_deliveries SET is_ordered = true")
    assert read_story(db, first).about.behind is None
    assert read_story(db, second).about.behind == first
    deliver(db, [first])
    assert read_story(db, second).about.behind is None
