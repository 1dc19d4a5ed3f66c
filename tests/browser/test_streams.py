"""Streams beyond what a server has threads for: they are refused, and cost the pages nothing."""

from __future__ import annotations

import os
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from dashboard.__main__ import PROCESSES, STREAMS
from lively import NOISE, Lively, is_live
from serving import start
from waiting import eventually

pytestmark = pytest.mark.check(6)

CAP = PROCESSES * STREAMS


class Tabs:
    """Open streams, each on a connection of its own."""

    def __init__(self, url: str, cookie: str) -> None:
        self._address = urlsplit(url)
        self._cookie = cookie
        self.open: list[socket.socket] = []

    def ask(self) -> str:
        """Ask for one more, and give the head of the answer; keep it when it is a stream."""
        host, port = self._address.hostname, self._address.port
        sock = socket.create_connection((host, port), timeout=10)
        sock.sendall(
            f"GET /live?t=overview HTTP/1.1\r\nHost: {host}:{port}\r\n"
            f"Cookie: fencepost_session={self._cookie}\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head and (read := sock.recv(4096)):
            head += read
        if head.startswith(b"HTTP/1.1 200"):
            self.open.append(sock)
        else:
            sock.close()
        return head.decode()

    def fill(self) -> None:
        """Open as many as there may be: the kernel spreads them over the processes unevenly."""
        eventually(lambda: self.ask() and len(self.open) == CAP)

    def close(self) -> None:
        for sock in self.open:
            sock.close()
        self.open.clear()


@pytest.fixture
def tabs(lively: Lively) -> Iterator[Tabs]:
    found = Tabs(lively.site.url, lively.site.stage.user(f"tabs {os.urandom(3).hex()}", "viewer"))
    yield found
    found.close()


def test_the_others_are_refused_and_poll_and_pages_answer(
    lively: Lively, tabs: Tabs, new_page: Callable[..., Page]
) -> None:
    tabs.fill()
    for _ in range(5):
        refused = tabs.ask()
        assert refused.startswith("HTTP/1.1 503")
        assert "Retry-After: 15" in refused
    page = new_page(at=lively.site)
    for known in NOISE:
        page.allow(known)  # type: ignore[attr-defined]
    with page.expect_response(lambda answer: "/_f/overview" in answer.url):  # nobody told it to
        page.goto("/overview")
    expect(page.locator("#live-pill")).to_have_text("polling")
    cookie = lively.site.stage.user("in a hurry", "viewer")
    assert min(seconds(f"{lively.site.url}/overview", cookie) for _ in range(5)) < 0.5
    began = time.monotonic()
    tabs.close()
    is_live(page)
    eventually(lambda: tabs.ask() and len(tabs.open) == CAP - 1, within=35)
    assert time.monotonic() - began < 35


def test_a_server_with_open_streams_ends_at_once(lively: Lively, tabs: Tabs) -> None:
    tabs.fill()
    process = lively.site.process
    began = time.monotonic()
    process.terminate()
    assert process.wait(30) == 0
    assert time.monotonic() - began < 6
    assert b"event: bye" in b"".join(iter(lambda: tabs.open[0].recv(4096), b""))
    lively.site.process = start(lively.site.environ, lively.site.log, lively.site.url)


def seconds(url: str, cookie: str) -> float:
    """Give how long a page takes, whole."""
    request = urllib.request.Request(url, headers={"Cookie": f"fencepost_session={cookie}"})  # noqa: S310
    began = time.monotonic()
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  # ours
        assert answer.status == 200
        answer.read()
    return time.monotonic() - began
