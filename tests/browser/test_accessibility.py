"""What axe-core says of every page, and what a screen reader is told while nobody asks."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain

import pytest
from flask import Flask
from playwright.sync_api import Page, expect

from axe import violations
from serving import Site
from tour import FOR_STRANGERS, Tour, beginnings, faults

pytestmark = pytest.mark.check(14)


def judge(page: Page, what: str) -> list[str]:
    """Look at what is open now, in both themes and at both widths."""
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (1280, 320):
            page.set_viewport_size({"width": width, "height": 800})
            found += [f"{what}, {scheme}, {width}: {each}" for each in violations(page)]
    return found


def test_no_page_has_a_barrier(new_page: Callable[..., Page], places: Tour) -> None:
    page = new_page("admin")
    found = []
    for name, paths in places.items():
        for path in paths if name not in FOR_STRANGERS else ():
            page.goto(path)
            found += judge(page, path)
    assert not found, "\n".join(found)


def test_the_door_has_no_barrier(new_page: Callable[..., Page], places: Tour) -> None:
    page = new_page(None)
    page.allow("422")  # type: ignore[attr-defined]
    found = []
    for path in chain.from_iterable(places[name] for name in FOR_STRANGERS):
        page.goto(path)
        found += judge(page, path)
    page.goto("/login")
    page.get_by_label("Name").fill("nobody")
    page.get_by_label("Password").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    found += judge(page, "/login, refused")
    assert not found, "\n".join(found)


def test_an_empty_page_has_no_barrier(
    new_page: Callable[..., Page], empty_site: Site, app: Flask
) -> None:
    page = new_page("admin", at=empty_site)
    found = []
    for path in beginnings(app):
        page.goto(path)
        found += judge(page, f"{path}, empty")
    assert not found, "\n".join(found)


def test_an_error_has_no_barrier(new_page: Callable[..., Page]) -> None:
    page = new_page("viewer")
    for known in ("404", "422", "403"):
        page.allow(known)  # type: ignore[attr-defined]
    found = []
    for path, status in {**faults(), "/subscriptions/new": 403}.items():
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == status
        found += judge(page, path)
    assert not found, "\n".join(found)


def test_an_open_dialog_has_no_barrier(site: Site, page: Page) -> None:
    stage = site.stage
    sub = stage.subscription("behind a dialog")
    (dead, *_) = stage.dead(sub.id, 3)
    found = []
    page.goto("/overview")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    found += judge(page, "help")
    page.goto(f"/deliveries/{dead}")
    page.get_by_role("link", name="Discard…").click()
    expect(page.get_by_role("dialog")).to_contain_text("Discard")
    found += judge(page, "discard")
    assert not found, "\n".join(found)


def test_numbers_that_tick_are_not_read_out(site: Site, page: Page) -> None:
    """What is announced is what was asked for; whoever listens would have no rest otherwise."""
    stage = site.stage
    sub = stage.subscription("announced")
    stage.deliveries(sub.id, 5)
    page.goto(f"/deliveries?sub={sub.id}")
    expect(page.locator("#live-pill")).to_have_text("live")
    page.evaluate(
        """() => {
          window.told = [];
          for (const id of ['announce', 'alerts']) {
            const place = document.getElementById(id);
            new MutationObserver(() => told.push(place.textContent))
              .observe(place, {childList: true, characterData: true, subtree: true});
          }
        }"""
    )
    first = stage.deliveries(sub.id)[0]
    expect(page.locator("#new-rows")).to_contain_text("1 new, show")
    for status in (503, 503, 200):
        stage.send(first, status)
    page.keyboard.press(".")
    expect(page.get_by_test_id(f"row-{first}")).to_contain_text("delivered")
    told = page.evaluate("told")
    assert told
    assert all(re.match(r"6 shown", each) for each in told), told
