"""The deliveries of an event on one axis: each as its own timeline tells it."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient

from dashboard.strips import draw
from fencepost.timeline import Timeline
from stage import Stage
from trails import Trail, failed_once, fenced_out, taken_in

ONE, OTHER = uuid4(), uuid4()


def well() -> Trail:
    trail = taken_in().add(20, "LEASED", "a", 1, waited_for="worker").add(30, "ATTEMPTED", "a", 1)
    return trail.add(130, "DELIVERED", "a", 1, status=200)


def dead_then_replayed() -> Trail:
    trail = taken_in().add(20, "LEASED", "a", 1).add(30, "ATTEMPTED", "a", 1)
    trail.add(130, "FAILED", "a", 1, status=404).add(130, "DLQ", "a", 1)
    trail.add(1_000_130, "REPLAYED").add(1_000_130, "RETRIED", delay_ms=0)
    trail.add(1_000_200, "LEASED", "b", 2).add(1_000_210, "ATTEMPTED", "b", 2)
    return trail.add(1_000_310, "DELIVERED", "b", 2, status=200)


@pytest.mark.parametrize("is_compressed", [False, True])
def test_every_segment_stands_where_its_time_is(*, is_compressed: bool) -> None:
    told: dict[UUID, Timeline] = {
        ONE: failed_once().build(60_000), OTHER: fenced_out().build(60_000)
    }  # fmt: skip
    strips = draw(told, is_compressed=is_compressed)
    for id_, timeline in told.items():
        shown = [each for each in timeline.segments if each.kind != "parked"]
        marks = strips.of[id_].marks
        assert [(m.kind, m.start_ms, m.duration_ms) for m in marks] == [
            (each.kind, each.start_ms, each.duration_ms) for each in shown
        ]
        if not is_compressed:
            for mark in marks:
                assert mark.x == pytest.approx(100 * mark.start_ms / 60_000, abs=0.01)
                assert mark.width == pytest.approx(100 * mark.duration_ms / 60_000, abs=0.01)
        for before, after in pairwise(m for m in marks if m.kind != "fenced"):
            assert after.x == pytest.approx(before.x + before.width, abs=0.01)
    assert "request in flight 100 ms, then sleeping 15.00 s" in strips.of[ONE].says
    assert strips.is_open


def test_the_axis_is_cut_while_everybody_is_parked() -> None:
    strips = draw({ONE: dead_then_replayed().build(2_000_000), OTHER: well().build(2_000_000)})
    (cut,) = strips.cuts
    assert cut.took == "16 m 40.0 s"
    assert not strips.is_open
    flights = [mark for mark in strips.of[ONE].marks if mark.kind == "in_flight"]
    assert [mark.duration_ms for mark in flights] == [100, 100]
    assert all(mark.width > 10 for mark in flights)


def test_what_is_spent_waiting_is_cut_when_it_hides_the_rest() -> None:
    told = {ONE: failed_once(delay_ms=3_600_000).build(3_000_000), OTHER: well().build(3_000_000)}
    assert draw(told).can_compress
    assert not draw(told).cuts
    (cut,) = draw(told, is_compressed=True).cuts
    assert cut.took.startswith("49 m")
    assert not draw({OTHER: well().build(1_000)}).can_compress


def test_nothing_is_drawn_of_nothing() -> None:
    strips = draw({})
    assert (strips.of, strips.cuts, strips.is_open) == ({}, (), False)


@pytest.fixture
def event(stage: Stage) -> UUID:
    """An event that met three subscriptions."""
    first, second, third = (stage.subscription(name).id for name in ("a", "b", "c"))
    (well,) = stage.deliveries(first)
    found: UUID = stage.value("SELECT event_id FROM webhook_deliveries WHERE id = %s", well)
    (late,), (_,) = (stage.deliveries(each, event_id=found) for each in (second, third))
    stage.send(well, 200)
    lease = stage.claim(late)
    stage.attempt(lease)
    stage.expire(late)
    stage.settle(lease, 200)
    stage.send(late, 404)
    return found


def test_the_page_draws_what_the_timelines_of_the_api_say(
    app: Flask, viewer: FlaskClient, stage: Stage, event: UUID
) -> None:
    page = viewer.get(f"/events/{event}").text
    headers = {"Authorization": f"Bearer {stage.token('viewer')}"}
    ids = re.findall(r'<tbody id="delivery-([^"]*)"', page)
    assert len(ids) == 3
    for id_ in ids:
        row = page.split(f'id="delivery-{id_}"')[1].split("</tbody>")[0]
        drawn = re.findall(r'data-seg="(\w+)" data-start-ms="(\d+)" data-ms="(\d+)"', row)
        told: Any = app.test_client().get(f"/api/v1/deliveries/{id_}/timeline", headers=headers)
        segments = [each for each in told.json["segments"] if each["kind"] != "parked"]
        assert [kind for kind, *_ in drawn] == [each["kind"] for each in segments]
        over = [each["duration_ms"] for each in segments if each["outcome"] is not None]
        assert [int(ms) for _, _, ms in drawn][: len(over)] == over
    assert "fenced" in page


def test_a_wide_event_shows_the_first_and_leads_to_the_rest(
    viewer: FlaskClient, monkeypatch: pytest.MonkeyPatch, event: UUID
) -> None:
    monkeypatch.setattr("dashboard.views.events.MOST_SHOWN", 2)
    page = viewer.get(f"/events/{event}?scale=compressed").text
    assert page.count('<tbody id="delivery-') == 2
    assert "2 of them are shown." in page
    assert f"/deliveries?q={event}" in page
    assert viewer.get(f"/events/{event}?scale=silly").status_code == 422


def test_it_is_drawn_again_while_something_goes_on(
    as_role: Callable[[str], FlaskClient], stage: Stage, event: UUID
) -> None:
    viewer, path = as_role("viewer"), f"/_f/events/{event}/deliveries"
    tag = viewer.get(path).headers["ETag"]
    (waiting,) = [
        row[0]
        for row in stage.conn.execute(
            "SELECT id FROM webhook_deliveries WHERE event_id = %s AND current_state = 'ENCRYPTED'",
            (event,),
        )
    ]
    stage.send(waiting, 200)
    after = viewer.get(path, headers={"If-None-Match": tag})
    assert after.status_code == 200
    again = viewer.get(path, headers={"If-None-Match": after.headers["ETag"]})
    assert again.status_code == 304
