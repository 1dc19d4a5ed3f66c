"""A real Chromium, and what must not go wrong in its pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from waiting import LIMIT

TELL_VIOLATIONS = (
    "addEventListener('securitypolicyviolation',"
    " (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`))"
)
"""A script for every page: what the policy blocks is said on the console, whatever it is."""
ELSEWHERE = "fencepost.test"
"""A name of this machine that is no loopback address to the browser: it trusts those alone."""
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Watched:
    """What went wrong in pages while a test used them."""

    faults: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def note(self, fault: str) -> None:
        if not any(text in fault for text in self.allowed):
            self.faults.append(fault)

    def watch(self, page: Page, own: str) -> None:
        """Note whatever its console says, every error, and every request that is not to ``own``."""
        page.on("pageerror", lambda error: self.note(f"error: {error}"))
        page.on("console", lambda message: self.note(f"{message.type}: {message.text}"))
        page.on("response", self._note_status)
        page.on("request", lambda request: self._note_origin(request.url, own))

    def _note_status(self, answer: Any) -> None:
        if answer.status >= 400:
            self.note(f"status {answer.status}: {answer.url}")

    def _note_origin(self, url: str, own: str) -> None:
        if not url.startswith((own, "data:", "about:")):
            self.note(f"request to {url}")


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """Playwright; its event loop stays with this thread until the session ends."""
    with sync_playwright() as found:
        yield found


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.fail("There is no Chromium on this machine: apt-get install chromium")
    expect.set_options(timeout=LIMIT * 1000)
    # /dev/shm is small in containers; root needs the sandbox off, and loads nothing but our pages.
    arguments = ["--disable-dev-shm-usage", f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"]
    arguments += ["--no-sandbox"] if os.getuid() == 0 else []
    found = playwright.chromium.launch(executable_path=program, args=arguments)
    yield found
    found.close()
