"""Every page in both themes and two widths: nothing the policy blocks, nothing that overflows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

import pytest
from playwright.sync_api import Page, expect

from dashboard.headers import CONTENT_SECURITY_POLICY
from tour import FOR_STRANGERS, Tour

INLINE = "document.querySelectorAll('[style], style, script:not([src])').length"
OVERFLOW = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
GROUND = {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 20, 25)"}

pytestmark = pytest.mark.check(1)


def look(page: Page, paths: Iterable[str], scheme: str) -> None:
    """Load each, and see that it stays within its window, however wide that is."""
    too_wide = []
    for path in paths:
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert page.evaluate(INLINE) == 0, path
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == GROUND[scheme]
        for width in (320, 768, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            too_wide += [f"{path} at {width}"] if page.evaluate(OVERFLOW) else []
    assert not too_wide


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_clean(new_page: Callable[..., Page], places: Tour, scheme: str) -> None:
    page = new_page("admin", color_scheme=scheme)
    ours = [found for name, found in places.items() if name not in FOR_STRANGERS]
    look(page, chain.from_iterable(ours), scheme)
    expect(page.locator("#live-pill")).to_have_text("live")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_of_strangers_is_clean(
    new_page: Callable[..., Page], places: Tour, scheme: str
) -> None:
    page = new_page(None, color_scheme=scheme)
    look(page, chain.from_iterable(places[name] for name in FOR_STRANGERS), scheme)


def test_what_is_inserted_by_force_is_blocked(new_page: Callable[..., Page]) -> None:
    """The watch over the other tests works: it hears the policy."""
    page = new_page()
    page.allow("Content Security Policy")  # type: ignore[attr-defined]
    page.allow("policy: ")  # type: ignore[attr-defined]
    page.goto("/overview")
    with page.expect_console_message(lambda said: said.text.startswith("policy: script-src")):
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'),"
            " {textContent: 'window.ran = true'}))"
        )
    assert page.evaluate("window.ran") is None
