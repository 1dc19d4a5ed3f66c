"""A history that is made up is one that could have happened: ``benchmarks/history.py``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from flask import Flask
from history import make_history
from history_plan import Plan
from pages_addresses import addresses, regions_of
from pages_samples import read_samples
from psycopg import Connection

import invariants
from conftest import MakeSettings
from dashboard import create_app
from dashboard.models import db
from fencepost.cells import WIDTH
from fencepost.states import State
from fencepost.store import logins, people, rollups, tokens
from fencepost.store.pool import connect
from fencepost.store.stories import read_story

pytestmark = pytest.mark.postgres

Sums = Mapping[tuple[Any, ...], tuple[Any, ...]]


@pytest.fixture
def history(db_url: str, settings: MakeSettings) -> Iterator[Connection[Any]]:
    """Three weeks of a small installation; a connection that owns it."""
    plan = Plan(
        deliveries=4000, subscriptions=40, days=20, most_attempts=30, until=time.time_ns() // 1000
    )
    with connect(db_url, role="owner", schema="public", name="test") as conn:
        made = make_history(conn, plan, settings(db_url), show=lambda _: None)
        assert made == pytest.approx(4000, rel=0.1)
        yield conn


def test_no_rule_is_broken(history: Connection[Any]) -> None:
    invariants.check(history)


def test_deliveries_are_in_all_states_that_last(history: Connection[Any]) -> None:
    rows = history.execute("SELECT DISTINCT current_state FROM webhook_deliveries").fetchall()
    lasting = {State.ENCRYPTED, State.RETRIED, State.DELIVERED, State.DLQ}
    assert lasting <= {State(row[0]) for row in rows}


def test_every_timeline_can_be_told(history: Connection[Any]) -> None:
    ids = history.execute(
        "SELECT DISTINCT ON (current_state, seq, expiries, lane) id FROM webhook_deliveries"
    ).fetchall()
    for (id_,) in ids:
        story = read_story(history, id_)
        assert [row.seq for row in story.timeline.rows] == list(range(1, story.delivery.seq + 1))
        assert all(segment.duration_ms >= 0 for segment in story.timeline.segments)
        assert story.timeline.segments[-1].outcome is None or story.delivery.dead_at is None


def test_its_figures_are_those_that_a_worker_keeps(history: Connection[Any]) -> None:
    made_up = _sums(history)
    history.execute("DELETE FROM webhook_rollups")
    history.execute("UPDATE webhook_rollup_progress SET upto = 0")
    with history.transaction():
        assert rollups.take_rollup(history)
        done = rollups.roll_up(history, transactions=10**9)
    assert done.is_caught_up
    assert _sums(history) == made_up


def test_every_page_and_region_opens_on_it(
    history: Connection[Any],
    db_url: str,
    settings: MakeSettings,
    request: pytest.FixtureRequest,
) -> None:
    app = create_app(settings(db_url))
    samples = read_samples(history)
    with history.transaction():
        user = people.add_user(history, "dana", password_hash="-", role="admin", actor="test")
        session = logins.open_session(history, user.id)
        token = tokens.create_token(history, "ci", role="admin", actor="test")[1]
    client = app.test_client()
    client.set_cookie("fencepost_session", session)
    request.addfinalizer(lambda: _close(app))
    waiting = list(addresses(app, samples, settings(db_url).secret()))
    seen = set()
    for address in waiting:
        if (url := address.urls[0]) in seen:
            continue
        seen.add(url)
        is_api = url.startswith("/api")
        headers = {"Authorization": f"Bearer {token}"} if is_api else {}
        with client.get(url, headers=headers) as answer:
            body = answer.get_data(as_text=True)
        is_unsent = answer.status_code == 404 and url.endswith("/attempts/1")
        assert is_unsent or answer.status_code in {200, 302, 303, 422}, url
        if not url.startswith(("/api", "/_f")):
            waiting += regions_of(app, address.rule, body, address.what)


def test_its_replays_say_what_became_of_what_they_touched(history: Connection[Any]) -> None:
    told = history.execute(
        "SELECT sum(requeued), sum(delivered) FROM webhook_replays WHERE requeued > 0"
    ).fetchone()
    found = history.execute(
        "SELECT count(*) FROM webhook_deliveries WHERE replay_id IS NOT NULL"
        " AND current_state = 'DELIVERED'"
    ).fetchone()
    assert told is not None
    assert found is not None
    assert told[0] >= told[1] == found[0] > 0


def test_guards_are_back(history: Connection[Any]) -> None:
    rows = history.execute(
        "SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'webhook_deliveries'::regclass"
    ).fetchall()
    assert {name for name, enabled in rows if enabled in {"A", b"A"}} >= {
        "webhook_deliveries_legal_start"
    }
    valid = history.execute(
        "SELECT bool_and(indisvalid), count(*) FROM pg_index"
        " WHERE indrelid = 'webhook_deliveries'::regclass"
    ).fetchone()
    assert valid is not None
    assert valid[0]
    assert valid[1] > 5


def _close(app: Flask) -> None:
    with app.app_context():
        db.engine.dispose()


def _sums(conn: Connection[Any]) -> Sums:
    """Add the counters of each subscription's hours, and how many durations each measure has."""
    counters = conn.execute(
        """
        SELECT r.subscription_id, date_bin('1 hour', r.starts_at, 'epoch'), sum(r.received),
               sum(r.attempts), sum(r.ended), sum(r.retries), sum(r.delivered),
               sum(r.first_delivered), sum(r.failed), sum(r.lease_expiries), sum(r.dead),
               sum(r.replayed), sum(r.discarded), sum(r.fenced)
          FROM webhook_rollups r
         GROUP BY 1, 2
        """
    ).fetchall()
    durations = conn.execute(
        """
        SELECT r.subscription_id, date_bin('1 hour', r.starts_at, 'epoch'), u.cell / %s,
               sum(u.count)
          FROM webhook_rollups r CROSS JOIN LATERAL unnest(r.cells, r.counts) AS u(cell, count)
         GROUP BY 1, 2, 3
        """,
        (WIDTH,),
    ).fetchall()
    return {row[:2]: row[2:] for row in counters} | {row[:3]: row[3:] for row in durations}
