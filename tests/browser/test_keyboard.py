"""Everything with the keyboard alone: where one is can be seen, and no key surprises."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from serving import Site

pytestmark = pytest.mark.check(13)

FOCUS = """() => {
  const here = document.activeElement;
  const [box] = [...here.getClientRects()].filter((each) => each.width && each.height);
  const ringed = here.closest('label.toggle') ?? here;
  const { outlineStyle, outlineWidth } = getComputedStyle(ringed);
  const shown = here.closest('label.toggle')?.getBoundingClientRect() ?? box;
  const top = shown && document.elementFromPoint(
    shown.left + Math.min(shown.width / 2, 20), shown.top + shown.height / 2);
  return {
    name: here.outerHTML.slice(0, 120),
    over: here === document.body,
    ring: outlineStyle === 'none' ? 0 : parseFloat(outlineWidth),
    seen: Boolean(top && (ringed.contains(top) || top.contains(ringed))),
  };
}"""


@pytest.fixture
def dead(site: Site) -> UUID:
    stage = site.stage
    sub = stage.subscription("by keyboard alone")
    (found, *_) = stage.dead(sub.id, 40)
    return found


@pytest.mark.parametrize("width", [1280, 320])
@pytest.mark.parametrize(
    "path", ["/overview", "/deliveries", "/dlq", "/deliveries/{}", "/subscriptions", "/settings"]
)
def test_where_the_focus_is_can_be_seen(page: Page, dead: UUID, path: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    page.goto(path.format(dead))
    hidden: list[Any] = []
    for number in range(120):
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUS)
        if found["over"]:
            assert number > 10, "there is more than that to go to"
            break
        hidden += [] if found["ring"] >= 2 and found["seen"] else [found]
    assert hidden == []


def test_shortcuts_are_off_once_the_settings_say_so(page: Page) -> None:
    page.goto("/settings")
    page.get_by_label("Single-key shortcuts", exact=True).select_option("off")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("Single-key shortcuts", exact=True)).to_have_value("off")
    theme = page.evaluate("document.documentElement.dataset.theme ?? null")
    for path in ("/settings", "/deliveries", "/dlq"):
        page.goto(path)
        for key in "gojkx/?tupcr.i[]":
            page.keyboard.press(key)
        assert page.url.endswith(path)
        assert page.evaluate("document.activeElement === document.body")
        expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.evaluate("document.documentElement.dataset.theme ?? null") == theme
    expect(page.locator("#live-pill")).to_have_text("live")


def test_typing_is_only_typing(page: Page, dead: UUID) -> None:
    page.goto(f"/deliveries/{dead}")
    expect(page.locator("#live-pill")).to_have_text("live")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    letters = "gojkx/?tupcr.i[]"
    page.keyboard.type(letters)
    expect(page.locator("#search")).to_have_value(letters)
    assert page.url.endswith(f"/deliveries/{dead}")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#live-pill")).to_have_text("live")
    for modifier in ("Control", "Alt", "Meta"):
        page.locator("body").press(f"{modifier}+p")
    expect(page.locator("#live-pill")).to_have_text("live")


def test_the_first_tab_skips_what_every_page_begins_with(page: Page, dead: UUID) -> None:
    page.goto(f"/deliveries/{dead}")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_a_dialog_keeps_the_focus_until_it_closes(page: Page, dead: UUID) -> None:
    page.goto(f"/deliveries/{dead}")
    opener = page.get_by_role("link", name="Discard…")
    opener.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    for _ in range(8):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "document.activeElement === document.body"
            " || Boolean(document.activeElement.closest('dialog'))"
        )
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()


def test_the_third_dead_letter_is_replayed_without_a_mouse(site: Site, page: Page) -> None:
    stage = site.stage
    sub = stage.subscription("the third of them")
    stage.dead(sub.id, 5)
    page.goto("/overview")
    expect(page.locator("#live-pill")).to_have_text("live")
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url("**/dlq")
    page.goto(f"/dlq?sub={sub.id}&group=none")
    expect(page.locator("#rows tr")).to_have_count(5)
    expect(page.locator("#live-pill")).to_have_text("live")
    for key in "jjjx":
        page.keyboard.press(key)
    third = page.locator("#rows tr").nth(2)
    expect(third.locator("[data-main]")).to_be_focused()
    expect(page.locator("#rows :checked")).to_have_count(1)
    expect(third.get_by_role("checkbox")).to_be_checked()
    chosen = (third.get_attribute("data-testid") or "").removeprefix("row-")
    page.keyboard.press("r")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    expect(dialog.get_by_test_id("replay-eligible")).to_have_text("1")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(third.get_by_role("checkbox")).to_be_checked()
    assert stage.value(
        "SELECT count(*) FROM webhook_deliveries WHERE subscription_id = %s AND dead_at IS NULL",
        sub.id,
    ) == 0  # fmt: skip
    page.keyboard.press("r")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("gqxjr?")
    page.keyboard.press("Enter")
    page.wait_for_url("**/replays/*")
    stage.requeue()
    expect(page.get_by_test_id("replay-requeued")).to_have_text("1")
    left = stage.conn.execute(
        "SELECT id::text FROM webhook_deliveries WHERE subscription_id = %s AND dead_at IS NULL",
        (sub.id,),
    ).fetchall()
    assert left == [(chosen,)]
