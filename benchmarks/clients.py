"""How many requests a bare loop of each HTTP client sends: the limit of what stands on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import requests
from requests.adapters import HTTPAdapter

from fencepost.bench.following import RECEIVER, WORKER
from fencepost.bench.receivers import Arrivals, Receivers
from fencepost.bench.series import Sample, Series

Loop = Callable[[str, bytes, threading.Event], None]
"""Sends requests with this body to this URL, one after the other, until it is over."""

_IN_FLIGHT: Final = 64


def race(loop: Loop, to: Receivers, body: bytes, threads: int, seconds: float) -> Series:
    """Let so many threads send for a while; give the first and the last moment of it."""
    over = threading.Event()
    running = [
        threading.Thread(target=loop, args=(to.url("well"), body, over)) for _ in range(threads)
    ]
    arrivals = Arrivals(to)
    begins = _sample(to, arrivals)
    for thread in running:
        thread.start()
    over.wait(seconds)
    ends = _sample(to, arrivals)
    over.set()
    for thread in running:
        thread.join()
    return Series((begins, ends), ends.done)


def _sample(to: Receivers, arrivals: Arrivals) -> Sample:
    cpu = {WORKER: time.process_time(), RECEIVER: to.cpu_seconds()}
    return Sample(at=time.monotonic(), done=arrivals(), cpu=cpu)


def _session(url: str, body: bytes, over: threading.Event) -> None:
    with requests.Session() as session:
        session.trust_env = False
        while not over.is_set():
            session.post(url, data=body, headers={"Content-Type": "application/json"}, timeout=15)


def _adapter(url: str, body: bytes, over: threading.Event) -> None:
    adapter = HTTPAdapter()
    headers = {"Content-Type": "application/json"}
    while not over.is_set():
        request = requests.Request("POST", url, data=body, headers=headers).prepare()
        adapter.send(request, timeout=15).close()
    adapter.close()


def _multi(url: str, body: bytes, over: threading.Event) -> None:
    """Keep 64 requests in flight in one thread."""
    curl: Any = import_module("pycurl")
    multi = curl.CurlMulti()
    free = [_easy(curl, url, body) for _ in range(_IN_FLIGHT)]
    while not over.is_set():
        while free:
            multi.add_handle(free.pop())
        multi.perform()
        _, ended, failed = multi.info_read()
        for easy in (*ended, *(one[0] for one in failed)):
            multi.remove_handle(easy)
            free.append(easy)
        if not free:
            multi.select(0.1)


def _easy(curl: Any, url: str, body: bytes) -> Any:  # noqa: ANN401 - pycurl has no types
    easy = curl.Curl()
    easy.setopt(curl.URL, url)
    easy.setopt(curl.POSTFIELDS, body)
    easy.setopt(curl.HTTPHEADER, ["Content-Type: application/json", "Expect:"])
    easy.setopt(curl.WRITEFUNCTION, len)
    easy.setopt(curl.NOSIGNAL, 1)
    return easy


LOOPS: Final = (
    ("requests.Session, 1 thread", _session, 1),
    ("requests.Session, 16 threads", _session, 16),
    ("its adapter, 1 thread", _adapter, 1),
    ("its adapter, 16 threads", _adapter, 16),
    *([("pycurl, CurlMulti, 64 in flight", _multi, 1)] if find_spec("pycurl") else []),
)
"""Each client as it is used best: its name, its loop, its threads."""
