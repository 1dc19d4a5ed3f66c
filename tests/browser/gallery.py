"""Pictures of every page, for people to look at: ``make screenshots``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from playwright.sync_api import Page

from serving import Site
from tour import FOR_STRANGERS, Tour, beginnings

FOLDER = Path(os.environ.get("SCREENSHOTS", "screenshots"))


@pytest.mark.parametrize("width", [1280, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_take_pictures(
    new_page: Callable[..., Page],
    places: Tour,
    empty_site: Site,
    app: Flask,
    scheme: str,
    width: int,
) -> None:
    folder = FOLDER / f"{scheme}-{width}"
    folder.mkdir(parents=True, exist_ok=True)
    look = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    full, door = new_page("admin", **look), new_page(None, **look)
    for name, paths in places.items():
        for number, path in enumerate(paths, 1):
            page = door if name in FOR_STRANGERS else full
            page.goto(path)
            page.screenshot(path=folder / f"{name}-{number}.png", full_page=True)
    beginning = new_page("admin", at=empty_site, **look)
    for path in beginnings(app):
        beginning.goto(path)
        beginning.screenshot(
            path=folder / f"empty-{path.strip('/').replace('/', '-')}.png", full_page=True
        )
