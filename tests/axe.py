"""axe-core, which finds what people who see, hear or move otherwise would stumble over."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from playwright.sync_api import Page

_SCRIPT: Final = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
_TAGS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def violations(page: Page) -> list[str]:
    """Judge a page as it is now; the policy does not concern what a debugger runs."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(_SCRIPT)
    found = page.evaluate("(tags) => axe.run({runOnly: tags, resultTypes: ['violations']})", _TAGS)
    return [
        f"{rule['id']}: {node['target'][0]}: {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
