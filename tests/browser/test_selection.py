"""Selecting dead letters: with the mouse, with the keyboard alone, all that match, and live."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from serving import Site


def rows(page: Page) -> list[str]:
    return [str(each.get_attribute("value")) for each in page.locator("input[name=pick]").all()]


@pytest.mark.check(10)
def test_all_that_match_are_selected_in_so_many_words(site: Site, page: Page) -> None:
    stage = site.stage
    sub = stage.subscription("to select")
    stage.dead(sub.id, 60)
    page.goto(f"/dlq?group=none&sub={sub.id}")
    replay, bar = page.get_by_test_id("replay-selected"), page.locator("#selection")
    expect(replay).to_be_disabled()
    expect(page.locator("[data-all-line]")).to_be_hidden()
    page.get_by_label("Select all rows of this page").check()
    expect(bar).to_contain_text("50 selected on this page.")
    expect(replay).to_have_text("Replay 50…")
    page.get_by_label("Select all 60 that match").check()
    expect(bar).to_contain_text("All 60 that match are selected.")
    expect(replay).to_have_text("Replay all 60…")
    page.get_by_test_id("discard-selected").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_test_id("discard-eligible")).to_have_text("60")
    dialog.get_by_label("Reason").fill("obsolete")
    dialog.get_by_test_id("discard-start").dblclick()
    page.wait_for_url("**/discards/*")
    expect(page.get_by_test_id("discard-state")).to_contain_text("running")
    running = "SELECT count(*) FROM webhook_discards WHERE state = 'RUNNING' AND eligible = 60"
    assert stage.value(running) == 1


@pytest.mark.check(10)
def test_another_filter_clears_the_selection(site: Site, page: Page) -> None:
    stage = site.stage
    sub = stage.subscription("to clear")
    stage.dead(sub.id, 3)
    page.goto(f"/dlq?group=none&sub={sub.id}")
    page.locator("input[name=pick]").first.check()
    expect(page.locator("#picked")).to_have_text("1 selected on this page.")
    page.locator("select[name=from]").select_option("-1h")
    page.wait_for_url("**from=-1h**")
    expect(page.locator("#picked")).to_have_text("Nothing is selected.")
    expect(page.locator("input[name=pick]:checked")).to_have_count(0)


@pytest.mark.check(13)
def test_rows_are_selected_and_replayed_with_the_keyboard_alone(site: Site, page: Page) -> None:
    stage = site.stage
    sub = stage.subscription("by keys")
    stage.dead(sub.id, 5)
    page.goto(f"/dlq?group=none&sub={sub.id}")
    expect(page.locator("#live-pill")).to_have_text("live")
    for key in ("j", "j", "x", "j", "j", "Shift+x"):
        page.keyboard.press(key)
    expect(page.locator("#picked")).to_have_text("3 selected on this page.")
    page.keyboard.press("r")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_test_id("replay-eligible")).to_have_text("3")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#picked")).to_have_text("Nothing is selected.")


@pytest.mark.check(3)
def test_what_comes_in_disturbs_neither_selection_nor_order(site: Site, page: Page) -> None:
    stage = site.stage
    sub, other = stage.subscription("to watch"), stage.subscription("to grow")
    stage.dead(sub.id, 3)
    stage.dead(other.id, 2)
    page.goto(f"/dlq?group=none&sub={sub.id}")
    expect(page.locator("#live-pill")).to_have_text("live")
    shown = rows(page)
    page.locator("input[name=pick]").nth(1).check()
    stage.dead(sub.id, 4)
    expect(page.locator("#new-rows")).to_contain_text("4 new")
    assert rows(page) == shown
    expect(page.locator("input[name=pick]").nth(1)).to_be_checked()
    page.locator("#new-rows a").click()
    expect(page.locator("input[name=pick]")).to_have_count(7)
    expect(page.locator(f"#pick-{shown[1]}")).to_be_checked()
    page.goto(f"/dlq?sub={sub.id}&sub={other.id}")
    expect(page.locator("#live-pill")).to_have_text("live")
    stage.dead(other.id, 20)
    counts = page.locator("#groups [data-label=Count]")
    expect(counts).to_have_text(["7", "22"])


@pytest.mark.check(11)
def test_rows_are_picked_without_javascript(site: Site, new_page: Callable[..., Page]) -> None:
    stage = site.stage
    sub = stage.subscription("picked plainly")
    stage.dead(sub.id, 4)
    page = new_page(java_script_enabled=False)
    page.allow("422")  # type: ignore[attr-defined]
    address = f"/dlq?group=none&sub={sub.id}"
    page.goto(address)
    page.get_by_test_id("discard-selected").click()
    expect(page.locator("main")).to_contain_text("Select at least one")
    page.goto(address)
    page.locator("input[name=pick]").nth(0).check()
    page.locator("input[name=pick]").nth(2).check()
    page.get_by_test_id("discard-selected").click()
    expect(page.get_by_test_id("discard-eligible")).to_have_text("2")
    page.goto(address)
    page.get_by_label("Select all 4 that match").check()
    page.get_by_test_id("replay-selected").click()
    expect(page.get_by_test_id("replay-eligible")).to_have_text("4")


@pytest.mark.check(13)
@pytest.mark.parametrize("path", ["/deliveries?", "/dlq?group=none&"])
def test_a_row_is_selected_on_a_telephone(
    site: Site, new_page: Callable[..., Page], path: str
) -> None:
    stage = site.stage
    sub = stage.subscription("in a hand")
    stage.dead(sub.id, 2)
    page = new_page(viewport={"width": 320, "height": 700})
    page.goto(f"{path}sub={sub.id}")
    page.locator("input[name=pick]").nth(1).check()
    expect(page.get_by_test_id("replay-selected")).to_have_text("Replay 1…")
