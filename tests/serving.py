"""A dashboard in processes of its own, as it is shipped."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from stage import Stage
from waiting import eventually


@dataclass
class Site:
    """A dashboard that answers, and the database behind it."""

    url: str
    stage: Stage
    environ: dict[str, str]
    process: subprocess.Popen[bytes]
    log: Path


def start(environ: dict[str, str], log: Path, url: str) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dashboard"], env=environ, stdout=output, stderr=output
        )
    eventually(lambda: process.poll() is not None or answers(url))
    assert process.poll() is None, log.read_text()
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(30)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=2) as response:  # noqa: S310  # ours
            return bool(response.status == 200)
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
