"""From a transition to the screen, and what the screen leaves alone: with a real worker."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from lively import Lively, is_live, watch
from waiting import eventually

TRIES = 20
SECONDS = 2.0

# Notes when a row is first seen delivered, and each number that the tile shows.
NOTE = """() => {
  window.rows = {}; window.tile = [];
  const note = () => {
    for (const row of document.querySelectorAll('#rows tr')) {
      if (row.textContent.includes('delivered')) window.rows[row.id] ??= Date.now();
    }
    const tile = document.querySelector('[data-testid=tile-dlq] .value')?.textContent;
    if (tile) window.tile.push([Date.now(), Number(tile.replace(/[^0-9]/g, ''))]);
  };
  note();
  new MutationObserver(note).observe(
    document.body, {subtree: true, childList: true, characterData: true});
}"""


@pytest.mark.check(2)
def test_what_a_worker_does_is_on_the_screen_within_two_seconds(
    lively: Lively, new_page: Callable[..., Page]
) -> None:
    stage = lively.site.stage
    sub = lively.subscribe("soon").id
    lively.publish("soon", TRIES)
    lively.wait(sub, "DLQ", TRIES)
    rows, overview = new_page(at=lively.site), new_page(at=lively.site)
    watch(rows, f"/deliveries?sub={sub}", "/_f/deliveries/rows")
    watch(overview, "/overview", "/_f/overview")
    for page in (rows, overview):
        page.evaluate(NOTE)
    for delivery in lively.ids(sub):
        stage.send_again(delivery)
        lively.wait_for(delivery, "DELIVERED")
    moved = {
        name: [
            row[0]
            for row in stage.conn.execute(
                "SELECT (extract(epoch FROM a.created_at) * 1000)::float8"
                "  FROM webhook_delivery_attempts a JOIN webhook_deliveries d ON d.id = delivery_id"
                " WHERE subscription_id = %s AND state = %s ORDER BY delivery_id",
                (sub, name),
            )
        ]
        for name in ("DELIVERED", "REPLAYED")
    }
    expect(rows.locator("#rows tr", has_text="delivered")).to_have_count(TRIES)
    seen = rows.evaluate("window.rows")
    late = [
        seen[f"row-{delivery}"] - at
        for delivery, at in zip(lively.ids(sub), moved["DELIVERED"], strict=True)
    ]
    assert sorted(late)[TRIES * 95 // 100 - 1] <= SECONDS * 1000, late
    before = overview.evaluate("window.tile[0][1]")
    eventually(lambda: overview.evaluate("window.tile.at(-1)[1]") <= before - TRIES)
    shown = overview.evaluate("window.tile")
    late = [
        next(at for at, number in shown if number <= before - count) - moment
        for count, moment in enumerate(moved["REPLAYED"], start=1)
    ]
    assert sorted(late)[TRIES * 95 // 100 - 1] <= SECONDS * 1000, late


@pytest.mark.check(3)
def test_fifty_transitions_move_nothing_that_is_in_use(
    lively: Lively, new_page: Callable[..., Page]
) -> None:
    sub = lively.subscribe("calm").id
    lively.publish("calm", 40)
    lively.wait(sub, "DLQ", 40)
    page = new_page(at=lively.site)
    watch(page, f"/deliveries?sub={sub}", "/_f/deliveries/rows")
    picked = page.locator("input[name=pick]")
    for place in (1, 12, 39):  # the last one is delivered meanwhile
        picked.nth(place).check()
    page.get_by_text("More filters").click()
    page.evaluate("scrollTo(0, 400)")
    held = page.locator("#rows [data-main]").nth(12)
    held.focus(timeout=15_000)
    page.evaluate("scrollTo(0, 400)")
    held.hover()
    eventually(lambda: page.evaluate("scrollY") == 400)
    box = held.bounding_box()
    page.evaluate("window.same = document.activeElement")
    lively.publish("calm", 50)
    lively.wait(sub, "DLQ", 90)
    lively.site.stage.send_again(lively.ids(sub)[0])  # a row that is shown
    expect(page.locator("#new-rows")).to_have_text("50 new, show")
    expect(page.locator("#rows tr").last).to_contain_text("delivered")
    assert page.evaluate("document.activeElement === window.same && scrollY") == 400
    assert page.locator("details.more").evaluate("e => e.open") is True
    assert [place for place in range(40) if picked.nth(place).is_checked()] == [1, 12, 39]
    expect(page.get_by_test_id("replay-selected")).to_have_text("Replay 3…")
    assert held.bounding_box() == box
    page.keyboard.press(".")
    expect(page.locator("#rows tr")).to_have_count(50)


@pytest.mark.check(3)
def test_a_list_follows_where_that_was_asked_for_and_nothing_moves(
    lively: Lively, new_page: Callable[..., Page]
) -> None:
    sub = lively.subscribe("follow").id
    lively.publish("follow", 2)
    lively.wait(sub, "DLQ", 2)
    page = new_page(at=lively.site)
    watch(page, f"/deliveries?sub={sub}", "/_f/deliveries/rows")
    page.locator("#follow").check()
    lively.publish("follow", 1)
    expect(page.locator("#rows tr")).to_have_count(3)
    page.locator("#rows [data-main]").first.focus()
    lively.publish("follow", 1)
    expect(page.locator("#new-rows")).to_have_text("1 new, show")
    expect(page.locator("#rows tr")).to_have_count(3)
    page.reload()
    expect(page.locator("#follow")).to_be_checked()


@pytest.mark.check(2)
def test_a_clock_that_is_wrong_is_told_so(lively: Lively, new_page: Callable[..., Page]) -> None:
    page = new_page(at=lively.site)
    page.add_init_script("const now = Date.now; Date.now = () => now() - 7000")
    page.goto("/overview")
    is_live(page)
    expect(page.locator("#clock-drift")).to_have_text(
        re.compile(r"Your clock is [67] s behind; times are the server's\.")
    )
