"""What changes while somebody looks: without a reload, and without moving what is in use."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from serving import Site, start, stop
from waiting import eventually


def live(page: Page) -> None:
    expect(page.locator("#live-pill")).to_have_text("live")


def watch(page: Page, path: str) -> None:
    """Open a page, and wait until its stream is open and its first refresh is over."""
    with page.expect_response(lambda answer: "/_f/" in answer.url and "/nav" not in answer.url):
        page.goto(path)
    live(page)


@pytest.mark.check(2)
def test_a_timeline_grows_without_a_reload(site: Site, page: Page) -> None:
    stage = site.stage
    (delivery,) = stage.deliveries(stage.subscription().id)
    watch(page, f"/deliveries/{delivery}")
    page.evaluate("window.same = true")
    rows = page.locator("#lines tr[data-testid^=row-]")
    expect(rows).to_have_count(2)
    lease = stage.claim(delivery)
    expect(rows).to_have_count(3)
    stage.attempt(lease)
    expect(rows).to_have_count(4)
    expect(page.locator("[data-seg=in_flight] .open-bar")).to_be_visible()
    stage.settle(lease, 503)
    expect(rows).to_have_count(6)
    expect(page.get_by_test_id("delivery-state")).to_contain_text("retried")
    stage.send(delivery, 200, "worker-b")
    expect(rows).to_have_count(9)
    expect(page.get_by_test_id("delivery-state")).to_contain_text("delivered")
    expect(page.locator("#lines tr").last).to_contain_text("HTTP 200 OK")
    assert page.evaluate("window.same") is True
    segments = page.locator("#timeline [data-seg]").evaluate_all(
        "all => all.map(e => e.dataset.seg)"
    )
    assert segments[:4] == ["ingest", "waiting", "preparing", "in_flight"]


@pytest.mark.check(2)
def test_an_open_stage_counts_on(site: Site, page: Page) -> None:
    stage = site.stage
    (delivery,) = stage.deliveries(stage.subscription().id)
    stage.attempt(stage.claim(delivery))
    page.goto(f"/deliveries/{delivery}")
    counter = page.locator("[data-since]")
    before = counter.inner_text()
    eventually(lambda: counter.inner_text() != before)


@pytest.mark.check(2)
def test_a_refused_write_appears_beside_the_attempt(site: Site, page: Page) -> None:
    stage = site.stage
    (delivery,) = stage.deliveries(stage.subscription().id)
    lease = stage.claim(delivery)
    stage.attempt(lease)
    watch(page, f"/deliveries/{delivery}")
    stage.expire(delivery)
    expect(page.get_by_test_id("row-5")).to_contain_text("lease expired")
    stage.settle(lease, 200)
    fenced = page.locator("#lines tr", has_text="fenced out")
    expect(fenced).to_contain_text("worker-a")
    expect(fenced).to_contain_text("token 1")


@pytest.mark.check(2)
def test_the_numbers_of_the_overview_follow(site: Site, page: Page) -> None:
    stage = site.stage
    sub = stage.subscription()
    stage.deliveries(sub.id)
    watch(page, "/overview")
    tile = page.get_by_test_id("tile-dlq").locator(".value")
    badge = page.locator("#nav-dlq .n")
    before = int(tile.inner_text().replace(",", ""))
    stage.dead(sub.id, 2)
    expect(tile).to_have_text(f"{before + 2:,}")
    expect(badge).to_contain_text(str(before + 2))


@pytest.mark.check(3)
def test_a_list_stays_where_it_is_and_says_what_is_new(site: Site, page: Page) -> None:
    stage = site.stage
    sub = stage.subscription("stays in place")
    first, *_ = stage.deliveries(sub.id, 30)
    watch(page, f"/deliveries?sub={sub.id}")
    link = page.get_by_test_id(f"row-{first}").locator("[data-main]")
    link.focus()
    page.mouse.wheel(0, 300)
    eventually(lambda: page.evaluate("scrollY") > 100)
    where = page.evaluate("scrollY")
    page.get_by_text("More filters").evaluate("e => e.parentElement.open = true")
    stage.send(first, 503)
    expect(page.get_by_test_id(f"row-{first}")).to_contain_text("retried")
    stage.deliveries(sub.id, 2)
    expect(page.locator("#new-rows")).to_contain_text("2 new, show")
    assert page.locator("#rows tr").count() == 30
    expect(link).to_be_focused()
    assert abs(page.evaluate("scrollY") - where) < 300
    assert page.locator("details.more").evaluate("e => e.open") is True
    page.keyboard.press(".")
    expect(page.locator("#rows tr")).to_have_count(32)
    expect(page.locator("#new-rows")).to_have_text("")


@pytest.mark.check(4)
def test_a_pause_stops_every_request(site: Site, page: Page) -> None:
    stage = site.stage
    (delivery,) = stage.deliveries(stage.subscription().id)
    watch(page, f"/deliveries/{delivery}")
    page.keyboard.press("p")
    expect(page.locator("#live-pill")).to_have_text("paused")
    eventually(lambda: page.evaluate("!document.querySelector('.htmx-request')"))
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    stage.send(delivery, 200)
    page.evaluate("dispatchEvent(new Event('blur')); dispatchEvent(new Event('focus'))")
    page.reload()
    expect(page.locator("#live-pill")).to_have_text("paused")
    stage.send_again(delivery)
    assert not [url for url in asked if "/live?" in url or "/_f/" in url]
    page.keyboard.press("p")
    live(page)
    expect(page.get_by_test_id("delivery-state")).to_contain_text("retried")


@pytest.mark.check(5)
def test_a_restart_of_the_server_is_survived(site: Site, new_page: Callable[..., Page]) -> None:
    page = new_page()
    for known in ("ERR_", "Failed to load", "Failed to fetch", "status 50", "warning"):
        page.allow(known)  # type: ignore[attr-defined]
    stage = site.stage
    (delivery,) = stage.deliveries(stage.subscription().id)
    watch(page, f"/deliveries/{delivery}")
    stop(site.process)
    expect(page.locator("#live-pill")).to_have_text(re.compile("reconnecting|polling"))
    stage.send(delivery, 200)
    site.process = start(site.environ, site.log, site.url)
    expect(page.locator("#live-pill")).to_have_text("live", timeout=40_000)
    expect(page.get_by_test_id("delivery-state")).to_contain_text("delivered")


@pytest.mark.check(5)
def test_a_region_that_cannot_be_refreshed_says_how_old_it_is(
    site: Site, new_page: Callable[..., Page]
) -> None:
    page = new_page()
    page.allow("503")  # type: ignore[attr-defined]
    stage = site.stage
    (delivery,) = stage.deliveries(stage.subscription().id)
    watch(page, f"/deliveries/{delivery}")
    page.route("**/_f/deliveries/**", lambda route: route.fulfill(status=503, body="away"))
    stage.send(delivery, 200)
    banner = page.locator("#alerts")
    expect(banner).to_contain_text(
        re.compile(r"Could not refresh \(503\). Showing data as of \d\d:")
    )
    expect(page.get_by_test_id("delivery-state")).to_contain_text("encrypted")
    page.unroute("**/_f/deliveries/**")
    expect(page.get_by_test_id("delivery-state")).to_contain_text("delivered")
    expect(banner).to_be_empty()


def test_a_session_that_ends_leads_to_the_login_and_back(
    site: Site, new_page: Callable[..., Page]
) -> None:
    page = new_page()
    page.allow("401")  # type: ignore[attr-defined]
    stage = site.stage
    (delivery,) = stage.deliveries(stage.subscription().id)
    watch(page, f"/deliveries/{delivery}")
    stage.conn.execute("DELETE FROM webhook_sessions")
    stage.send(delivery, 200)
    page.wait_for_url(f"**/login?next=/deliveries/{delivery}")


@pytest.mark.check(2)
def test_an_events_page_follows_its_fan_out(site: Site, page: Page) -> None:
    stage = site.stage
    event_id = stage.value("SELECT webhook_publish('order.paid', '{}')")
    watch(page, f"/events/{event_id}")
    expect(page.locator("#deliveries")).to_contain_text("Not fanned out yet.")
    stage.conn.execute("DELETE FROM webhook_outbox WHERE event_id = %s", (event_id,))
    stage.deliveries(stage.subscription().id)
    expect(page.locator("#deliveries")).to_contain_text("No subscription matched.")
