"""Pauses and breaks: a page that asks for nothing, and one that has lost its server for a while."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from lively import NOISE, Lively, is_calm, is_live, watch
from serving import start, stop

STATES = """() => {
  const root = document.documentElement;
  window.states = [root.dataset.live];
  new MutationObserver(() => window.states.push(root.dataset.live)).observe(
    root, {attributeFilter: ['data-live']});
}"""


@pytest.mark.check(4)
def test_a_pause_asks_for_nothing_whatever_happens(
    lively: Lively, new_page: Callable[..., Page]
) -> None:
    site, sub = lively.site, lively.subscribe("pause").id
    lively.publish("pause", 3)
    lively.wait(sub, "DLQ", 3)
    page = new_page(at=site)
    watch(page, f"/deliveries?sub={sub}", "/_f/deliveries/rows")
    asked: list[str] = []
    page.keyboard.press("p")
    expect(page.locator("#live-pill")).to_have_text("paused")
    is_calm(page)
    page.on("request", lambda one: asked.append(one.url))
    lively.publish("pause", 20)
    lively.wait(sub, "DLQ", 23)
    page.evaluate(
        """() => {
          for (const name of ['blur', 'focus', 'online']) dispatchEvent(new Event(name));
          document.dispatchEvent(new Event('visibilitychange'));
          document.body.dispatchEvent(new CustomEvent('live:overview'));
        }"""
    )
    stop(site.process)
    site.process = start(site.environ, site.log, site.url)
    assert asked == []
    page.keyboard.press("p")
    is_live(page)
    expect(page.locator("#new-rows")).to_have_text("20 new, show")
    is_calm(page)
    (stream,) = [url for url in asked if "/live?" in url]
    assert "last=" not in stream, "everything is asked for again"
    assert len([url for url in asked if "/_f/deliveries/rows" in url]) == 1
    assert len([url for url in asked if "/_f/deliveries/new" in url]) == 1


@pytest.mark.check(5)
def test_a_server_that_is_away_for_a_while_is_taken_up_again(
    lively: Lively, new_page: Callable[..., Page]
) -> None:
    site, sub = lively.site, lively.subscribe("away").id
    lively.publish("away", 3)
    lively.wait(sub, "DLQ", 3)
    page = new_page(at=site)
    for known in NOISE:
        page.allow(known)  # type: ignore[attr-defined]
    watch(page, f"/deliveries?sub={sub}", "/_f/deliveries/rows")
    page.evaluate(STATES)
    page.evaluate("window.same = document.querySelector('#rows tr')")
    # The page polls after five seconds without a stream.
    with page.expect_event("requestfailed", lambda one: "/_f/" in one.url):
        stop(site.process)
    expect(page.locator("#live-pill")).to_have_text("polling")
    expect(page.locator("#alerts")).to_contain_text(
        re.compile(r"Could not refresh \(no answer\)\. Showing data as of \d\d:\d\d:\d\dZ\.")
    )
    assert page.locator("#rows tr").count() == 3
    lively.publish("away", 7)
    lively.wait(sub, "DLQ", 10)
    streams: list[str] = []
    page.on("request", lambda one: streams.extend([one.url] if "/live?" in one.url else []))
    site.process = start(site.environ, site.log, site.url)
    is_live(page)
    expect(page.locator("#new-rows")).to_have_text("7 new, show")
    expect(page.locator("#alerts")).to_be_empty()
    assert re.search(r"[?&]last=\d+", streams[-1])
    states = page.evaluate("window.states")
    assert (states[0], states[-1]) == ("live", "live")
    assert {"reconnecting", "polling"} <= set(states)
    assert page.evaluate("window.same === document.querySelector('#rows tr')")


@pytest.mark.check(5)
def test_a_refused_first_stream_is_asked_for_again(
    lively: Lively, new_page: Callable[..., Page]
) -> None:
    sub = lively.subscribe("refused").id
    lively.publish("refused", 1)
    lively.wait(sub, "DLQ", 1)
    page = new_page(at=lively.site)
    for known in NOISE:
        page.allow(known)  # type: ignore[attr-defined]
    left = [503, 503, 200]

    def answer(route: Route) -> None:
        status = left.pop(0) if left else 200
        if status == 200:
            route.continue_()
        else:
            route.fulfill(status=status, body="All streams are taken.\n")

    page.route("**/live?*", answer)
    page.goto(f"/deliveries?sub={sub}")
    is_live(page)
    assert left == []
    assert page.locator("main h1").inner_text() == "Deliveries"
    lively.publish("refused", 4)
    expect(page.locator("#new-rows")).to_have_text("4 new, show")
