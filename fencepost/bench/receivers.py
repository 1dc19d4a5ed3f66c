"""Receivers for a benchmark: nginx where it is installed, else a small server of our own."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.bench import responder, usage
from fencepost.bench.plan import FAILING, HANGING, Plan
from fencepost.bench.pressure import requests_per_second
from fencepost.errors import FencepostError
from fencepost.processes import tethered

_PATIENCE: Final = 10.0

_NGINX: Final = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
worker_rlimit_nofile 65536;
events {{ worker_connections 16384; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600;
  client_max_body_size 64m; client_body_buffer_size 64k;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} backlog=8192;
    location / {{ {answer} }}
    location = /-/count {{ stub_status; }}
  }}
}}
"""


class ReceiverError(FencepostError):
    """A receiver did not start; the message ends with what it said."""


@dataclass(frozen=True, slots=True)
class Receivers:
    """Where the events of a plan go.

    Attributes:
        kind: which program receives.
        port: of the one that answers.
        hanging_port: of the one that never does.
        alone_per_second: how many requests it answers when nothing but a client runs.
        failing_port: of the one that answers 503.
        pid: of the one that answers; None: it is somebody else's.
    """

    kind: str
    port: int
    hanging_port: int
    alone_per_second: float
    failing_port: int = 0
    pid: int | None = None

    def url(self, name: str) -> str:
        """Give the endpoint of a subscription."""
        port = {HANGING: self.hanging_port, FAILING: self.failing_port}.get(name, self.port)
        return f"http://127.0.0.1:{port}/webhooks"

    def cpu_seconds(self) -> float:
        """Give the processor time that the one which answers has used so far."""
        return 0.0 if self.pid is None else usage.cpu_seconds_of_all(self.pid)

    def count(self) -> int:
        """Count the requests so far, this one included, at the receiver that answers."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE) as sock:
            sock.sendall(b"GET /-/count HTTP/1.1\r\nHost: receiver\r\nConnection: close\r\n\r\n")
            said = b"".join(iter(lambda: sock.recv(4096), b""))
        numbers = re.search(rb"(?:^|\s)\d+\s+\d+\s+(\d+)\s", said.partition(b"\r\n\r\n")[2])
        if numbers is None:
            raise ReceiverError(f"the receiver does not count: {said[:200]!r}")
        return int(numbers[1])


class Arrivals:
    """Counts the requests that come to the receiver that answers, from now on.

    Args:
        to: the receiver; nobody else may ask it to count meanwhile.
    """

    def __init__(self, to: Receivers) -> None:
        self._to = to
        self._not_ours = to.count()

    def __call__(self) -> int:
        """Give how many have come by now."""
        self._not_ours += 1  # the question is a request itself
        return self._to.count() - self._not_ours


@contextmanager
def receivers(plan: Plan, folder: Path) -> Iterator[Receivers]:
    """Run the receivers for as long as the block takes.

    Args:
        plan: says how large the answers are, and whether a receiver hangs.
        folder: for their files.

    Raises:
        ReceiverError: one did not start.
    """
    port, hanging_port, failing_port = _free_port(), _free_port(), _free_port()
    nginx = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    with ExitStack() as stack:
        if nginx is None:
            kind, argv = "fencepost", _own(port, "--body", str(plan.response))
        else:
            kind = _version(nginx)
            argv = [nginx, "-p", str(folder), "-c", _write(plan, folder, port)]
        pid = stack.enter_context(_program(argv, folder / "receiver.log", port))
        if plan.hanging:
            argv = _own(hanging_port, "--hang")
            stack.enter_context(_program(argv, folder / "hanging.log", hanging_port))
        if plan.failing:
            argv = _own(failing_port, "--fail")
            stack.enter_context(_program(argv, folder / "failing.log", failing_port))
        alone = requests_per_second(port, payload=plan.payload)
        yield Receivers(kind, port, hanging_port, alone, failing_port, pid)


def _own(port: int, *options: str) -> list[str]:
    return [sys.executable, "-I", "-S", responder.__file__, "--port", str(port), *options]


def _version(nginx: str) -> str:
    done = subprocess.run([nginx, "-v"], capture_output=True, text=True, check=False)  # noqa: S603 - found on the path
    return done.stderr.strip().removeprefix("nginx version: ")


def _write(plan: Plan, folder: Path, port: int) -> str:
    answer = f'return 200 "{"x" * plan.response}";' if plan.response else "return 204;"
    path = folder / "nginx.conf"
    path.write_text(_NGINX.format(folder=folder, port=port, answer=answer), encoding="utf-8")
    return str(path)


@contextmanager
def _program(argv: list[str], log: Path, port: int) -> Iterator[int]:
    with log.open("ab") as out:
        process = subprocess.Popen(tethered(argv), stdout=out, stderr=out)  # noqa: S603 - see above
    try:
        _await(process, log, port)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _await(process: subprocess.Popen[bytes], log: Path, port: int) -> None:
    until, tick = time.monotonic() + _PATIENCE, threading.Event()
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                said = " ".join(log.read_text(encoding="utf-8", errors="replace").split())
                raise ReceiverError(f"the receiver did not start: {said[-300:]}") from None
            tick.wait(0.02)
        else:
            return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
