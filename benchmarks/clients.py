"""How many requests a bare loop of each HTTP client sends: the limit of what stands on it."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from runs import Section, Size, run_alone, tell

from fencepost.bench.plan import Plan
from fencepost.bench.receivers import receivers

Loop = Callable[[str, bytes, int], None]
"""Sends so many requests with this body to this URL."""


def measure(size: Size) -> Section:
    """Send as many requests as a short run takes, with each client at its best."""
    count, plan = size.pick(4_000, 40_000), Plan()
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        with receivers(plan, folder) as to:
            tell(f"the receiver alone: {to.alone_per_second:,.0f} requests/s")
            url, body = to.url("well"), b"x" * plan.payload
            for what, loop in (("requests.Session", _session), ("its adapter", _adapter)):
                rows += [
                    [what, threads, *_rate(loop, url, body, count, threads)] for threads in (1, 16)
                ]
            if find_spec("pycurl"):
                rows.append(["pycurl, CurlMulti", 1, *_rate(_multi, url, body, 8 * count, 1)])
    return Section(
        title="Bare clients",
        target="none: the limit of what a transport on them can reach on this machine.",
        command="python benchmarks/clients.py [--full]",
        columns=("client", "threads", "requests/s", "CPU µs"),
        rows=rows,
        figures={f"bare {row[0]} {row[1]}": float(str(row[2])) for row in rows},
    )


def _rate(loop: Loop, url: str, body: bytes, count: int, threads: int) -> tuple[float, float]:
    """Give requests a second and the processor's microseconds for each."""
    each = count // threads
    running = [threading.Thread(target=loop, args=(url, body, each)) for _ in range(threads)]
    began, used = time.perf_counter(), time.process_time()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    took, used = time.perf_counter() - began, time.process_time() - used
    return each * threads / took, used / (each * threads) * 1e6


def _session(url: str, body: bytes, count: int) -> None:
    with requests.Session() as session:
        session.trust_env = False
        for _ in range(count):
            session.post(url, data=body, headers={"Content-Type": "application/json"}, timeout=15)


def _adapter(url: str, body: bytes, count: int) -> None:
    adapter = HTTPAdapter()
    headers = {"Content-Type": "application/json"}
    for _ in range(count):
        request = requests.Request("POST", url, data=body, headers=headers).prepare()
        adapter.send(request, timeout=15).close()
    adapter.close()


def _multi(url: str, body: bytes, count: int) -> None:
    """Keep 64 requests in flight in one thread."""
    curl: Any = import_module("pycurl")
    multi, free, left, done = curl.CurlMulti(), [], count, 0
    for _ in range(64):
        easy = curl.Curl()
        easy.setopt(curl.URL, url)
        easy.setopt(curl.POSTFIELDS, body)
        easy.setopt(curl.HTTPHEADER, ["Content-Type: application/json", "Expect:"])
        easy.setopt(curl.WRITEFUNCTION, len)
        easy.setopt(curl.NOSIGNAL, 1)
        free.append(easy)
    while done < count:
        while free and left:
            multi.add_handle(free.pop())
            left -= 1
        multi.perform()
        _, ended, failed = multi.info_read()
        for easy in (*ended, *(one[0] for one in failed)):
            multi.remove_handle(easy)
            free.append(easy)
            done += 1
        if not ended:
            multi.select(0.1)


if __name__ == "__main__":
    run_alone(measure)
