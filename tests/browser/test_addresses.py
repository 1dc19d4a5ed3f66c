"""What an address carries: for somebody else, for Back and Forward, and for a reload."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from serving import Site

pytestmark = pytest.mark.check(8)

STORED = "[...Object.values(localStorage), ...Object.values(sessionStorage)]"


def rows(page: Page) -> list[str]:
    found: list[str] = page.locator("#rows [data-testid^=row-]").evaluate_all(
        "(rows) => rows.map((row) => row.dataset.testid)"
    )
    return found


def view(page: Page) -> tuple[list[str], list[str], str]:
    """Give what a reader sees of a list, once it has its whole frame."""
    expect(page.locator("header.top")).to_have_count(1)
    expect(page.locator("#results")).to_have_count(1)
    return rows(page), page.locator(".chip").all_inner_texts(), page.title()


@pytest.fixture
def filtered(site: Site, page: Page) -> Page:
    """A list behind five filters, set as a person sets them."""
    stage = site.stage
    sub, other = stage.subscription("five filters"), stage.subscription("left out")
    once, twice, waiting, elsewhere = *stage.deliveries(sub.id, 3), *stage.deliveries(other.id)
    for delivery in (once, twice, elsewhere):
        stage.send(delivery, 200)
    stage.send_again(twice)
    stage.send(twice, 200)
    page.goto("/deliveries")
    page.locator("[name=sub]").select_option(value=str(sub.id))
    page.wait_for_url("**sub=**")
    expect(page.locator("#rows tr")).to_have_count(3)
    page.locator("[name=state][value=delivered]").check(force=True)
    page.wait_for_url("**state=delivered**")
    page.get_by_text("More filters").click()
    for name, value in {"code": "2xx", "type": "invoice.*", "min_attempts": "2"}.items():
        page.locator(f"[name={name}]").fill(value)
        page.wait_for_url(f"**{name}=**")
    expect(page.locator("#rows tr")).to_have_count(1)
    expect(page.locator(".chip")).to_have_count(5)
    assert rows(page) == [f"row-{twice}"]
    assert str(waiting) not in page.content()
    return page


def test_an_address_shows_somebody_else_the_same(
    filtered: Page, new_page: Callable[..., Page]
) -> None:
    other = new_page("viewer")
    other.goto(filtered.url)
    assert view(other) == view(filtered)
    filled = "(form) => [...new FormData(form)].filter(([, value]) => value)"
    bar = "form[aria-label=Filters]"
    assert other.locator(bar).evaluate(filled) == filtered.locator(bar).evaluate(filled)


def test_going_back_shows_the_whole_filtered_page_again(filtered: Page) -> None:
    seen, address = view(filtered), filtered.url
    filtered.locator("#rows [data-main]").click()
    filtered.wait_for_url("**/deliveries/*-*")
    filtered.go_back()
    filtered.wait_for_url(address)
    assert view(filtered) == seen
    filtered.reload()
    assert view(filtered) == seen
    filtered.go_back()
    expect(filtered.locator(".chip")).to_have_count(4)
    filtered.go_forward()
    filtered.wait_for_url(address)
    expect(filtered.locator(".chip")).to_have_count(5)
    assert view(filtered) == seen
    assert not [text for text in filtered.evaluate(STORED) if "<" in text]


def test_a_filter_that_is_taken_away_leaves_the_others(filtered: Page) -> None:
    filtered.locator(".chip", has_text="2xx").get_by_role("link").click()
    expect(filtered.locator(".chip")).to_have_count(4)
    assert "code=" not in filtered.url
    filtered.get_by_role("link", name="Clear all").click()
    filtered.wait_for_url("**/deliveries")
    expect(filtered.locator(".chip")).to_have_count(0)
