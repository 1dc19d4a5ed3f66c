"""Regions that cannot be refreshed: what they show stays, and what is wrong is said."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from serving import Site
from stage import PASSWORD


@pytest.mark.parametrize("status", [500, 503, 404])
def test_an_error_leaves_a_region_as_it_is(
    site: Site, new_page: Callable[..., Page], status: int
) -> None:
    page, stage = new_page(), site.stage
    page.allow(str(status))  # type: ignore[attr-defined]
    (delivery,) = stage.deliveries(stage.subscription().id)
    page.goto(f"/deliveries/{delivery}")
    expect(page.locator("#live-pill")).to_have_text("live")
    before = page.locator("#timeline").inner_text()
    page.route(
        "**/_f/deliveries/**",
        lambda route: route.fulfill(status=status, content_type="text/html", body="<h1>no</h1>"),
    )
    stage.send(delivery, 200)
    told = re.compile(rf"Could not refresh \({status}\)\. Showing data as of \d\d:\d\d:\d\dZ\.")
    expect(page.locator("#alerts")).to_contain_text(told)
    assert page.locator("#timeline").inner_text().split("\n")[0] == before.split("\n")[0]
    expect(page.locator("h1")).not_to_contain_text(["no"])
    page.unroute("**/_f/deliveries/**")
    expect(page.get_by_test_id("delivery-state")).to_contain_text("delivered")
    expect(page.locator("#alerts")).to_be_empty()


def test_a_session_that_ended_is_renewed_and_the_page_is_there_again(
    site: Site, new_page: Callable[..., Page]
) -> None:
    page, stage = new_page(None), site.stage
    page.allow("401")  # type: ignore[attr-defined]
    stage.user("hopper", "viewer")
    (delivery,) = stage.deliveries(stage.subscription().id)
    address = f"/deliveries/{delivery}?tab=audit"
    page.goto(address)
    for _ in range(2):
        page.get_by_label("Name").fill("hopper")
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{address}")
        expect(page.locator("#live-pill")).to_have_text("live")
        stage.conn.execute(
            "DELETE FROM webhook_sessions s USING webhook_users u"
            " WHERE u.id = s.user_id AND u.name = 'hopper'"
        )
        stage.send(delivery, 503)
        page.wait_for_url("**/login?next=**")
