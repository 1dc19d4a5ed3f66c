"""Logging in, choosing how things look, and filtering a list, as a person does it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from serving import Site
from stage import PASSWORD


def test_a_person_logs_in_and_comes_back_to_where_they_were_going(
    site: Site, new_page: Callable[..., Page]
) -> None:
    site.stage.user("grace", "viewer")
    page = new_page(None)
    page.allow("422")  # type: ignore[attr-defined]
    page.goto("/dlq?code=503")
    expect(page).to_have_title(re.compile("^Log in"))
    page.get_by_label("Name").fill("grace")
    page.get_by_label("Password").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The name or the password is wrong.")
    expect(page.get_by_label("Password")).to_be_focused()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/dlq?code=503")
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/login")
    page.go_back()
    expect(page).to_have_title(re.compile("^Log in"))


def test_a_link_logs_in_once(site: Site, new_page: Callable[..., Page]) -> None:
    page = new_page(None)
    page.goto(f"/login/{site.stage.link('linked')}")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/overview")


def test_the_theme_is_remembered_without_a_flash(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/overview")
    page.get_by_role("button", name="Light or dark theme").click()
    page.reload(wait_until="commit")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_times_are_shown_in_the_form_that_was_chosen(
    site: Site, new_page: Callable[..., Page]
) -> None:
    (delivery,) = site.stage.deliveries(site.stage.subscription().id)
    page = new_page(timezone_id="Asia/Kathmandu")
    page.goto(f"/deliveries?q={delivery}")
    received = page.get_by_test_id(f"row-{delivery}").locator("time").last
    expect(received).to_contain_text("ago")
    page.get_by_role("button", name="ago").click()
    expect(received).to_contain_text("+05:45")
    page.keyboard.press("u")
    expect(received).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ$"))


def test_a_telephone_shows_where_one_can_go(new_page: Callable[..., Page]) -> None:
    page = new_page(viewport={"width": 375, "height": 800})
    page.goto("/overview")
    for link in page.get_by_role("navigation", name="Main").get_by_role("link").all():
        expect(link).to_be_in_viewport(ratio=1)


def test_a_state_stands_on_the_line_of_the_text_beside_it(site: Site, page: Page) -> None:
    site.stage.dead(site.stage.subscription().id, 1)
    page.goto("/deliveries?state=dlq")
    bottoms = page.locator("#rows tr").first.evaluate(
        """(row) => ['.state', '[data-label="Last answer"]'].map((selector) => {
          const range = document.createRange();
          range.selectNodeContents(row.querySelector(selector));
          return range.getBoundingClientRect().bottom;
        })"""
    )
    assert abs(bottoms[0] - bottoms[1]) <= 1


def filter_rows(page: Page) -> int:
    return page.locator("#rows tr").count()


@pytest.mark.check(8)
def test_deliveries_are_filtered_by_subscription_and_state(site: Site, page: Page) -> None:
    stage = site.stage
    sub, other = stage.subscription("filtered one"), stage.subscription("filtered other")
    stage.deliveries(sub.id, 3)
    (sent,) = stage.deliveries(sub.id)
    stage.send(sent, 200)
    stage.deliveries(other.id, 2)
    page.goto("/deliveries")
    page.locator("[name=sub]").select_option(label="filtered one")
    expect(page.get_by_test_id("list-count")).to_contain_text("4 match.")
    page.wait_for_url(f"**/deliveries?sub={sub.id}")
    page.get_by_text("delivered", exact=True).first.click()
    expect(page.get_by_test_id("list-count")).to_contain_text("1 matches.")
    page.wait_for_url(f"**/deliveries?sub={sub.id}&state=delivered")
    expect(page.locator(".chip")).to_have_count(2)
    expect(page.locator("#announce")).to_contain_text("1 shown")
    assert page.locator("html").count() == 1
    page.get_by_test_id(f"row-{sent}").get_by_role("link").first.click()
    expect(page.get_by_test_id("delivery-state")).to_contain_text("delivered")
    page.go_back()
    expect(page.get_by_test_id("list-count")).to_contain_text("1 matches.")
    page.go_back()
    expect(page.get_by_test_id("list-count")).to_contain_text("4 match.")
    expect(page.locator("header.top")).to_have_count(1)
    assert page.evaluate("Object.keys(sessionStorage).length") == 0
    page.reload()
    expect(page.get_by_test_id("list-count")).to_contain_text("4 match.")


def test_typing_asks_once_and_keeps_the_caret(site: Site, page: Page) -> None:
    site.stage.deliveries(site.stage.subscription().id)
    page.goto("/deliveries")
    page.get_by_text("More filters").click()
    asked: list[Any] = []
    page.on("request", lambda one: asked.append(one.url) if "/deliveries?" in one.url else None)
    box = page.get_by_role("textbox", name="Event type")
    box.press_sequentially("order", delay=20)
    expect(page.get_by_test_id("list-count")).to_contain_text("0 shown")
    box.press_sequentially(".x", delay=20)
    box.press("Enter")
    page.wait_for_url("**/deliveries?type=order.x")
    expect(box).to_be_focused()
    assert len([url for url in asked if "/_f/" not in url]) <= 3


def test_a_filter_that_cannot_be_read_is_named_and_the_list_stays(site: Site, page: Page) -> None:
    page.allow("422")  # type: ignore[attr-defined]
    site.stage.deliveries(site.stage.subscription().id)
    page.goto("/deliveries")
    page.get_by_text("More filters").click()
    box = page.get_by_role("textbox", name="Event type")
    box.fill("order.")
    expect(page.locator("#alerts")).to_contain_text("type: each must be an event type")
    expect(page.get_by_test_id("list-count")).to_contain_text("shown")
    box.fill("order.paid")
    expect(page.get_by_test_id("list-count")).to_contain_text("0 shown")
    expect(page.locator("#alerts")).to_be_empty()
