"""The dashboard as it is shipped, and how long it takes to answer."""

from __future__ import annotations

import http.client
import math
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pages_addresses import Address
from runs import BenchmarkError

Headers = Mapping[str, Mapping[str, str]]
"""What to send, by the beginning of the path."""

TIMES: Final = 20
_FEW: Final = 4
_SECONDS: Final = 3.0
"""An address that has taken so long is not asked again, once it was asked a few times."""
_PATIENCE: Final = 30.0


@dataclass(frozen=True, slots=True)
class Timed:
    """An address with how long it took, each time, in milliseconds; ``status`` is the worst."""

    address: Address
    times: Sequence[float]
    size: int
    status: int

    @property
    def p95(self) -> float:
        """What one in twenty exceeds, by nearest rank."""
        return sorted(self.times)[math.ceil(0.95 * len(self.times)) - 1]

    def cells(self) -> list[object]:
        """Give its line."""
        told = (
            self.address.what
            if self.status == http.client.OK
            else f"{self.address.what} ({self.status})"
        )
        return [
            f"`{self.address.rule}`", told, statistics.median(self.times), self.p95,
            max(self.times), self.size / 1024,
        ]  # fmt: skip


class Site:
    """The dashboard as it is shipped, in processes of its own."""

    def __init__(self, port: int) -> None:
        self._port: Final = port

    def time(self, address: Address, headers: Headers) -> tuple[Timed, str]:
        """Fetch an address again and again; give the times, and what it answered first."""
        times, statuses, first = [], [], ""
        for turn in range(TIMES):
            url = address.urls[turn % len(address.urls)]
            began = time.perf_counter()
            status, body = self.get(url, headers)
            times.append((time.perf_counter() - began) * 1000)
            statuses.append(status)
            first = first or body
            if status == http.client.UNPROCESSABLE_ENTITY:
                break
            if len(times) >= _FEW and sum(times) > _SECONDS * 1000:
                break
        if max(statuses) == http.client.INTERNAL_SERVER_ERROR:
            raise BenchmarkError(f"{address.urls[0]} answers 500: {first[:500]}")
        return Timed(address, times, len(first), max(statuses)), first

    def get(self, url: str, headers: Headers) -> tuple[int, str]:
        """Fetch one address, without following where it leads."""
        conn = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_PATIENCE)
        try:
            conn.request("GET", url, headers=headers_for(headers, url))
            response = conn.getresponse()
            return response.status, response.read().decode()
        finally:
            conn.close()


@contextmanager
def dashboard(environ: Mapping[str, str]) -> Iterator[Site]:
    """Run gunicorn for as long as the block takes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    site, pause = Site(port), threading.Event()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "dashboard"],
        env={**environ, "FENCEPOST_BIND": f"127.0.0.1:{port}"},
    )
    try:
        until = time.monotonic() + _PATIENCE
        while not _is_ready(site):
            if process.poll() is not None or time.monotonic() > until:
                raise BenchmarkError("the dashboard did not start")
            pause.wait(0.1)
        yield site
    finally:
        process.terminate()
        process.wait(_PATIENCE)


def _is_ready(site: Site) -> bool:
    try:
        return site.get("/readyz", {})[0] == http.client.OK
    except OSError:
        return False


def headers_for(headers: Headers, url: str) -> dict[str, str]:
    """Choose what belongs to an address."""
    return dict(headers.get("/api" if url.startswith("/api") else "", {}))
