"""The hub on a real database, and the streams that it feeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from flask import Flask
from flask.testing import FlaskClient

from dashboard.live import Hub
from dashboard.live_source import DatabaseSource
from dashboard.signals import Viewer
from fencepost.store import logins
from stage import Stage
from waiting import eventually


@pytest.fixture
def hub(source: DatabaseSource) -> Iterator[Hub]:
    found = Hub(source, limit=3, interval=0.02)
    yield found
    found.close()


def told(hub: Hub, viewer: Viewer) -> Mapping[str, Mapping[str, Any]]:
    return eventually(lambda: hub.wait(viewer, seconds=1).signals)


def join(hub: Hub, *topics: str) -> Viewer:
    viewer = hub.join(frozenset(topics))
    assert viewer is not None
    assert list(told(hub, viewer)) == ["resync"]
    return viewer


def is_silent(hub: Hub, viewer: Viewer) -> bool:
    """Tell whether ten more looks have nothing for it."""
    return not hub.wait(viewer, seconds=0.2).signals


def test_who_resumes_is_told_what_came_since(hub: Hub, stage: Stage) -> None:
    sub = stage.subscription()
    viewer = join(hub, "overview", "dlq")
    mark = hub.wait(viewer, seconds=0).mark
    hub.leave(viewer)
    idle = hub.join(frozenset({"overview", "dlq"}), mark=mark)
    assert idle is not None
    assert is_silent(hub, idle), "nothing happened: the page is as it should be"
    stage.dead(sub.id, 1)
    late = hub.join(frozenset({"dlq"}), mark=mark)
    assert late is not None
    assert told(hub, late) == {"dlq": {"delta": 1}}


def test_a_login_that_ends_takes_its_streams_along(hub: Hub, stage: Stage) -> None:
    cookies = [stage.user(name) for name in ("leaves", "is disabled", "idles", "stays")]
    viewers = [
        hub.join(frozenset({"overview"}), session=logins.session_key(cookie))
        for cookie in cookies[:3]
    ]
    assert not any(hub.wait(viewer, seconds=0.2).is_over for viewer in viewers if viewer)
    logins.close_session(stage.conn, cookies[0])
    stage.conn.execute("UPDATE webhook_users SET disabled_at = now() WHERE name = 'is disabled'")
    stage.conn.execute(
        "UPDATE webhook_sessions SET last_seen_at = last_seen_at - %s WHERE token_hash = %s",
        (logins.IDLE + timedelta(seconds=1), logins.session_key(cookies[2])),
    )
    for viewer in viewers:
        assert viewer is not None
        assert eventually(lambda one=viewer: hub.wait(one, seconds=1).is_over)  # type: ignore[misc]
        hub.leave(viewer)
    stays = hub.join(frozenset({"overview"}), session=logins.session_key(cookies[3]))
    assert stays is not None
    told(hub, stays)
    assert not hub.wait(stays, seconds=0.2).is_over


def test_a_watched_delivery_is_told_by_state_and_by_refused_write(hub: Hub, stage: Stage) -> None:
    watched, other = stage.deliveries(stage.subscription().id, 2)
    viewer = join(hub, f"delivery:{watched}")
    lease = stage.claim(watched)
    assert told(hub, viewer)["delivery"] == {"id": str(watched), "state": "LEASED", "seq": 3}
    stage.attempt(lease)
    told(hub, viewer)
    stage.expire(watched)
    told(hub, viewer)
    assert stage.settle(lease, 200) is False
    assert told(hub, viewer)["delivery"]["state"] == "RETRIED"
    stage.claim(other)
    assert is_silent(hub, viewer)


def test_topics_get_what_they_asked_for(hub: Hub, stage: Stage) -> None:
    sub = stage.subscription()
    overview, queue = join(hub, "overview"), join(hub, "dlq")
    stage.deliveries(sub.id)
    assert told(hub, overview) == {"overview": {}}
    assert is_silent(hub, queue)
    (dead,) = stage.deliveries(sub.id)
    stage.send(dead, 404)
    assert told(hub, queue) == {"dlq": {"delta": 1}}


def test_a_thousand_changes_are_one_signal(hub: Hub, stage: Stage) -> None:
    viewer = join(hub, "overview")
    stage.deliveries(stage.subscription().id, 1000)
    assert told(hub, viewer) == {"overview": {}}
    assert is_silent(hub, viewer)


def test_there_are_only_so_many_streams(hub: Hub) -> None:
    viewers = [hub.join(frozenset({"overview"})) for _ in range(3)]
    assert hub.join(frozenset({"overview"})) is None
    assert viewers[0] is not None
    hub.leave(viewers[0])
    hub.leave(viewers[0])
    assert hub.join(frozenset({"overview"})) is not None


def test_an_outage_ends_in_a_resync(hub: Hub, stage: Stage) -> None:
    viewer = join(hub, "overview")
    stage.conn.execute("ALTER FUNCTION fencepost_now() RENAME TO fencepost_gone")
    stage.conn.execute(
        "CREATE FUNCTION fencepost_now() RETURNS timestamptz LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION USING ERRCODE = '57P03'; END$$"
    )
    stage.conn.execute("GRANT EXECUTE ON FUNCTION fencepost_now() TO PUBLIC")
    eventually(lambda: viewer.is_new)
    stage.conn.execute("DROP FUNCTION fencepost_now()")
    stage.conn.execute("ALTER FUNCTION fencepost_gone() RENAME TO fencepost_now")
    assert told(hub, viewer) == {"resync": {}}


def test_stopping_ends_a_wait(hub: Hub) -> None:
    viewer = join(hub, "overview")
    hub.stop()
    assert hub.wait(viewer, seconds=60).is_over
    assert hub.join(frozenset()) is None


def events(answer: Any) -> Iterator[tuple[str, Any]]:
    """Read a stream as the browser does."""
    name = ""
    for chunk in answer.response:
        for line in chunk.decode().splitlines():
            kind, _, rest = line.partition(": ")
            if kind == "event":
                name = rest
            elif kind == "data":
                yield name, json.loads(rest)


def test_a_stream_carries_signals_and_no_content(
    app: Flask, viewer: FlaskClient, stage: Stage
) -> None:
    (one,) = stage.deliveries(stage.subscription().id)
    answer = viewer.get(f"/live?t=delivery:{one},overview", buffered=False)
    assert answer.mimetype == "text/event-stream"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Accel-Buffering"] == "no"
    found = events(answer)
    assert next(found) == ("resync", {})
    stage.claim(one)
    heard = {name: data for name, data in (next(found), next(found)) if name != "hb"}
    assert heard.get("delivery", {"id": str(one)})["id"] == str(one)
    assert app.extensions["fencepost"].hub.viewers == 1
    answer.close()
    assert app.extensions["fencepost"].hub.viewers == 0


def test_a_full_house_says_when_to_come_again(viewer: FlaskClient) -> None:
    taken = [viewer.get("/live?t=overview", buffered=False) for _ in range(3)]
    full = viewer.get("/live?t=overview")
    assert (full.status_code, full.headers["Retry-After"]) == (503, "15")
    for answer in taken:
        answer.close()
    again = viewer.get("/live?t=overview", buffered=False)
    assert again.status_code == 200
    again.close()


def test_streams_end_when_the_server_stops(app: Flask, viewer: FlaskClient) -> None:
    answer = viewer.get("/live?t=overview", buffered=False)
    found = events(answer)
    assert next(found)[0] == "resync"
    app.extensions["fencepost"].hub.stop()
    assert [name for name, _ in found][-1] == "bye"
    answer.close()


@pytest.mark.parametrize(
    "topics", ["nonsense", "delivery:1", "delivery:", f"worker:{UUID(int=1)}", "overview,,x",
               ",".join(f"delivery:{UUID(int=number)}" for number in range(17))]
)  # fmt: skip
def test_an_unknown_topic_is_refused(viewer: FlaskClient, topics: str) -> None:
    assert viewer.get(f"/live?t={topics}").status_code == 422


def test_a_stream_needs_a_login(app: Flask) -> None:
    answer = app.test_client().get("/live?t=overview", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 401


def test_a_stream_holds_no_database_connection(viewer: FlaskClient, stage: Stage) -> None:
    answers = [viewer.get("/live?t=overview", buffered=False) for _ in range(3)]
    for answer in answers:
        assert next(events(answer))[0] == "resync"
    busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
    eventually(
        lambda: stage.value(
            f"{busy} application_name = 'fencepost web' AND state LIKE 'idle in%%'"
        ) == 0
    )  # fmt: skip
    for answer in answers:
        answer.close()
