"""From the DLQ to a running replay: the exact number, the question, and the way without a mouse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from serving import Site


def count(site: Site, where: str, *params: object) -> int:
    return int(site.stage.value(f"SELECT count(*) FROM {where}", *params))


@pytest.mark.check(10)
def test_all_that_match_are_replayed_behind_an_exact_count(site: Site, page: Page) -> None:
    stage = site.stage
    sub, other = stage.subscription("to replay"), stage.subscription("to leave alone")
    stage.dead(sub.id, 112)
    stage.dead(other.id, 3)
    page.goto("/dlq")
    page.locator("select[name=sub]").select_option(label="to replay")
    expect(page.get_by_test_id("replay-all")).to_contain_text("Replay all 112 that match")
    page.get_by_test_id("replay-all").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_test_id("replay-count")).to_have_text("112")
    expect(dialog.get_by_test_id("replay-eligible")).to_have_text("112")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    expect(dialog).to_contain_text("subscription to replay")
    stage.dead(sub.id, 2)
    dialog.get_by_label("Reason").fill("they mended it")
    dialog.get_by_label("Type 112 to confirm").fill("114")
    page.allow("422")  # type: ignore[attr-defined]
    dialog.get_by_test_id("replay-start").click()
    expect(dialog.locator("#fault-confirm")).to_have_text("Type 112 to confirm.")
    expect(dialog.get_by_label("Type 112 to confirm")).to_be_focused()
    expect(dialog.get_by_label("Reason")).to_have_value("they mended it")
    dialog.get_by_label("Type 112 to confirm").fill("112")
    dialog.get_by_test_id("replay-start").dblclick()
    page.wait_for_url("**/replays/*")
    expect(page.get_by_test_id("replay-state")).to_contain_text("running")
    expect(page.locator("#live-pill")).to_have_text("live")
    started = "webhook_replays WHERE state = 'RUNNING' AND filter @> %s::jsonb"
    assert count(site, started, f'{{"sub": ["{sub.id}"]}}') == 1
    stage.requeue()  # the worker's part
    expect(page.get_by_test_id("replay-requeued")).to_have_text("112")
    touched = "webhook_delivery_attempts a JOIN webhook_deliveries d ON d.id = a.delivery_id"
    replayed = f"{touched} WHERE a.state = 'REPLAYED' AND d.subscription_id = %s"
    assert count(site, replayed, sub.id) == 112
    assert count(site, replayed, other.id) == 0
    dead = "webhook_deliveries WHERE current_state = 'DLQ' AND subscription_id = %s"
    assert count(site, dead, sub.id) == 2


@pytest.mark.check(13)
def test_escape_closes_the_question_and_changes_nothing(site: Site, page: Page) -> None:
    stage = site.stage
    (dead,) = stage.dead(stage.subscription().id, 1)
    page.goto(f"/deliveries/{dead}")
    opener = page.get_by_role("link", name="Replay…")
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Replay this delivery?")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(opener).to_be_focused()
    assert count(site, "webhook_delivery_attempts WHERE delivery_id = %s", dead) == 6


@pytest.mark.check(13)
def test_one_is_replayed_with_the_keyboard_alone(site: Site, page: Page) -> None:
    stage = site.stage
    sub = stage.subscription("by keyboard")
    stage.dead(sub.id, 3)
    page.goto("/overview")
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url("**/dlq")
    page.goto(f"/dlq?group=none&sub={sub.id}")
    for _ in range(4):
        page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url("**/deliveries/*")
    expect(page.locator("#live-pill")).to_have_text("live")  # until then the key is a plain link's
    page.keyboard.press("r")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("g q j k")  # typing triggers nothing
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("delivery-state")).to_contain_text("retried")
    expect(page.locator("#lines")).to_contain_text("g q j k")
    assert count(site, "webhook_deliveries WHERE current_state = 'RETRIED'"
                 " AND subscription_id = %s", sub.id) == 1  # fmt: skip


@pytest.mark.check(13)
def test_shortcuts_can_be_switched_off(page: Page) -> None:
    page.goto("/overview")
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keyboard shortcuts")
    help_.get_by_label("Single-key shortcuts are on").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.keyboard.press("?")
    expect(help_).to_be_hidden()
    assert page.url.endswith("/overview")


@pytest.mark.check(13)
def test_the_focus_is_never_under_the_header(site: Site, page: Page) -> None:
    stage = site.stage
    sub = stage.subscription("long list")
    stage.dead(sub.id, 50)
    page.goto(f"/dlq?group=none&sub={sub.id}")
    for _ in range(50):
        page.keyboard.press("j")
    for _ in range(30):
        page.keyboard.press("k")
        top, under = page.evaluate(
            "[document.activeElement.getBoundingClientRect().top,"
            " document.querySelector('.table thead th').getBoundingClientRect().bottom]"
        )
        assert top >= under - 1


@pytest.mark.check(11)
@pytest.mark.parametrize("size", [3, 101])
def test_everything_works_without_javascript(
    site: Site, new_page: Callable[..., Page], size: int
) -> None:
    stage = site.stage
    sub = stage.subscription(f"plain {size}")
    stage.dead(sub.id, size)
    page = new_page(java_script_enabled=False)
    page.allow("422")  # type: ignore[attr-defined]
    page.goto("/dlq")
    page.locator("select[name=sub]").select_option(label=f"plain {size}")
    page.get_by_role("button", name="Filter").click()
    page.get_by_test_id("replay-all").click()
    page.wait_for_url("**/replays/*")
    expect(page.get_by_test_id("replay-eligible")).to_have_text(str(size))
    page.get_by_label("Reason").fill("mended")
    if size > 100:
        page.get_by_label(f"Type {size} to confirm").fill("1")
        page.get_by_test_id("replay-start").click()
        expect(page.locator("#fault-confirm")).to_be_visible()
        page.get_by_label(f"Type {size} to confirm").fill(str(size))
    page.get_by_test_id("replay-start").click()
    expect(page.get_by_test_id("replay-state")).to_contain_text("running")
    page.get_by_role("link", name="Cancel…").click()
    page.get_by_role("button", name="Stop it").click()
    expect(page.get_by_test_id("replay-state")).to_contain_text("cancelled")
    expect(page.get_by_test_id("replay-remaining")).to_have_text(str(size))


@pytest.mark.check(15)
def test_copying_gives_the_exact_id(site: Site, new_page: Callable[..., Page]) -> None:
    (delivery,) = site.stage.deliveries(site.stage.subscription().id)
    page = new_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"/deliveries/{delivery}")
    page.keyboard.press("c")
    expect(page.locator("#announce")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == str(delivery)
