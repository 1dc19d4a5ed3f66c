"""A delivery's timeline as it is drawn, held against what the API tells of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from serving import Site
from stage import Stage
from trails import at, taken_in
from written import refuse, write

pytestmark = pytest.mark.check(7)

BARS = """(rows) => rows.map((row) => {
  const place = (selector) => {
    const { left, width } = row.querySelector(selector).getBoundingClientRect();
    return { left, width };
  };
  const { seg, startMs, ms, worker, token } = row.dataset;
  return { seg, start: Number(startMs), took: Number(ms), worker: worker ?? null,
    token: token === undefined ? null : Number(token),
    track: place('svg.track'), bar: place('rect.fill:not(.least)'), least: place('rect.least') };
})"""


def fenced_out(stage: Stage) -> UUID:
    """A lease is lost, the late answer refused; then a 503, a minute's sleep, and a success."""
    trail = taken_in().add(380, "LEASED", "worker-a1", 41).add(391, "ATTEMPTED", "worker-a1", 41)
    trail.add(30_380, "LEASE_EXPIRED", "worker-a1", 41)
    trail.add(30_380, "RETRIED", "worker-b2", 41, delay_ms=0)
    trail.add(30_900, "LEASED", "worker-b2", 42).add(30_910, "ATTEMPTED", "worker-b2", 42)
    trail.add(31_420, "FAILED", "worker-b2", 42, status=503, **{"class": "http_5xx"})
    due = at(91_420).isoformat()
    trail.add(31_420, "RETRIED", "worker-b2", 42, delay_ms=60_000, due_at=due)
    trail.add(97_900, "LEASED", "worker-b2", 43).add(97_910, "ATTEMPTED", "worker-b2", 43)
    trail.add(98_040, "DELIVERED", "worker-b2", 43, status=200)
    begins = stage.value("SELECT fencepost_now() - interval '1 hour'")
    found = write(stage.conn, stage.subscription("scripted").id, trail, begins=begins)
    refuse(stage.conn, found, "worker-a1", 41, begins + (at(33_200) - at(0)))
    return found


def played(stage: Stage) -> UUID:
    """The like, by the worker's own statements: all within a moment."""
    (found,) = stage.deliveries(stage.subscription("played").id)
    lease = stage.claim(found)
    stage.attempt(lease)
    stage.expire(found)
    assert not stage.settle(lease, 200)
    stage.send(found, 503, "worker-b")
    stage.send(found, 200, "worker-b")
    return found


def bars(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.locator("#timeline tr[data-seg]").evaluate_all(BARS)
    return found


@pytest.mark.parametrize("width", [1280, 320])
@pytest.mark.parametrize("story", [fenced_out, played])
def test_every_bar_is_where_the_api_says(
    site: Site, new_page: Callable[..., Page], story: Callable[[Stage], UUID], width: int
) -> None:
    delivery = story(site.stage)
    page = new_page(viewport={"width": width, "height": 800})
    asked = page.request.get(
        f"/api/v1/deliveries/{delivery}/timeline",
        headers={"Authorization": f"Bearer {site.stage.token()}"},
    )
    told = asked.json()["segments"]
    page.goto(f"/deliveries/{delivery}")
    drawn = bars(page)
    assert [(b["seg"], b["start"], b["took"], b["worker"], b["token"]) for b in drawn] == [
        (s["kind"], s["start_ms"], s["duration_ms"], s["worker_id"], s["fencing_token"])
        for s in told
    ]
    assert min(bar["took"] for bar in drawn) >= 0
    whole = max(bar["start"] + bar["took"] for bar in drawn)
    for bar in drawn:
        track, allowed = bar["track"], max(3, bar["track"]["width"] / 100)
        begins = track["left"] + track["width"] * bar["start"] / whole
        assert bar["bar"]["left"] == pytest.approx(begins, abs=allowed), bar
        assert bar["bar"]["width"] == pytest.approx(
            track["width"] * bar["took"] / whole, abs=allowed
        )
        assert bar["least"]["width"] >= 3, "what is short is still seen"


def test_sleeping_and_waiting_are_told_apart(site: Site, page: Page) -> None:
    page.goto(f"/deliveries/{fenced_out(site.stage)}")
    rows = page.locator("#timeline tr[data-seg]")
    slept, waited = rows.and_(page.locator(".sleeping")), rows.and_(page.locator(".waiting"))
    assert slept.evaluate_all(BARS)[0]["took"] == 60_000
    assert [bar["took"] for bar in waited.evaluate_all(BARS)] == [368, 520, 6_480]
    fills = [one.locator("rect.fill").last.get_attribute("fill") for one in (slept, waited.first)]
    assert len(set(fills)) == 2, "they differ by their fill, not by their colour alone"


def test_the_lane_beside_an_attempt_names_who_was_fenced_out(site: Site, page: Page) -> None:
    page.goto(f"/deliveries/{fenced_out(site.stage)}")
    lane = page.locator("#timeline tbody.beside")
    expect(lane).to_contain_text("worker-a1")
    expect(lane).to_contain_text("token 41")
    bar = lane.locator("tr[data-seg=fenced]")
    expect(bar).to_have_attribute("data-worker", "worker-a1")
    expect(bar).to_have_attribute("data-token", "41")
    expect(bar.locator("td.took")).to_have_text("2.82 s")


def test_what_is_cut_short_is_marked_and_the_rest_keeps_one_scale(site: Site, page: Page) -> None:
    delivery = played(site.stage)
    page.goto(f"/deliveries/{delivery}")
    expect(page.locator("#timeline")).not_to_contain_text("Not to scale")
    delivery = slow_to_be_claimed(site.stage)
    page.goto(f"/deliveries/{delivery}")
    page.keyboard.press("i")
    page.wait_for_url("**scale=compressed")
    expect(page.locator("#timeline")).to_contain_text("Not to scale at")
    marks = page.locator(".axis .mark")
    expect(marks).to_have_count(1)
    cut, *rest = sorted(bars(page), key=lambda bar: -bar["took"])
    assert cut["seg"] == "sleeping"
    assert cut["bar"]["width"] < cut["track"]["width"] / 10
    scales = [bar["bar"]["width"] / bar["took"] for bar in rest if bar["bar"]["width"] > 30]
    assert len(scales) >= 2
    assert max(scales) == pytest.approx(min(scales), rel=0.1)
    expect(page.locator("#timeline tr.sleeping td.took")).to_have_text("1 h 00 m")


def slow_to_be_claimed(stage: Stage) -> UUID:
    """Two attempts of a few seconds, an hour apart."""
    trail = taken_in().add(1_000, "LEASED", "a", 1).add(1_500, "ATTEMPTED", "a", 1)
    trail.add(9_500, "FAILED", "a", 1, status=503, **{"class": "http_5xx"})
    due = at(3_609_500).isoformat()
    trail.add(9_500, "RETRIED", "a", 1, delay_ms=3_600_000, due_at=due)
    trail.add(3_610_500, "LEASED", "a", 2).add(3_611_000, "ATTEMPTED", "a", 2)
    trail.add(3_617_000, "DELIVERED", "a", 2, status=200)
    begins = stage.value("SELECT fencepost_now() - interval '2 hours'")
    return write(stage.conn, stage.subscription("an hour apart").id, trail, begins=begins)
