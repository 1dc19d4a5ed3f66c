"""The usual ways to send webhooks from Python, at their best, and how fast they are."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker import Broker
from runs import BenchmarkError

from fencepost.bench import usage
from fencepost.bench.database import Database
from fencepost.bench.following import RECEIVER, STORE, WORKER
from fencepost.bench.plan import Plan
from fencepost.bench.receivers import Arrivals, Receivers
from fencepost.bench.series import Sample, Series
from fencepost.processes import tethered

_HERE: Final = Path(__file__).parent
_PYTHON: Final = os.environ.get("PEERS_PYTHON", str(_HERE.parent / ".venv/peers/bin/python"))
POOLS: Final = {
    "prefork 2": ("-P", "prefork", "-c", "2"),
    "prefork 4": ("-P", "prefork", "-c", "4"),
    "prefork 8": ("-P", "prefork", "-c", "8"),
    "threads 16": ("-P", "threads", "-c", "16"),
    "gevent 100": ("-P", "gevent", "-c", "100"),
}
HOW: Final = {"requests.post": "0", "session kept": "1"}
"""``requests.post`` as everybody writes it, or a session that is kept, which few do."""

_CELERY: Final = (
    "-m", "celery", "-A", "celery_app", "worker", "--loglevel", "ERROR",
    "--without-gossip", "--without-mingle", "--without-heartbeat",
)  # fmt: skip
_CELERY_PER_SECOND: Final = 3_000
_PROCRASTINATE_PER_SECOND: Final = 1_500
"""More than any of them sends on such a machine: for so much is the queue made."""

_WARM_UP: Final = 1.0
_PATIENCE: Final = 60.0
_PATIENCE_AT_THE_END: Final = 10.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sender sends to, and the file that gets what it says."""

    to: Receivers
    log: Path


def fill(broker: Broker, seconds: int) -> None:
    """Give Celery's queue more than any of its pools sends in so many seconds."""
    count = int(_CELERY_PER_SECOND * (seconds + _WARM_UP))
    environ = {**os.environ, "BROKER_URL": broker.url(), "PYTHONPATH": str(_HERE)}
    _run(["celery_app.py", str(count), str(Plan().payload)], environ)


def celery(pool: str, how: str, broker: Broker, at: Place, seconds: int) -> Series:
    """Let a Celery worker send from a queue that is full; give what it did after its start.

    Args:
        pool: one of POOLS.
        how: one of HOW.
        broker: ``fill`` has filled it.
        at: where it sends to.
        seconds: how long to look.
    """
    url = broker.copied()
    environ = {
        **os.environ,
        "BROKER_URL": url,
        "KEEP_SESSION": HOW[how],
        "PYTHONPATH": str(_HERE),
        "RECEIVER_URL": at.to.url("well"),
    }
    series = _race([*_CELERY, *POOLS[pool]], environ, broker.pid, at, seconds)
    if not broker.length(url):
        raise BenchmarkError(f"Celery, {pool}: its queue was too short to tell its speed")
    return series


def procrastinate(db: Database, at: Place, seconds: int) -> Series:
    """Let Procrastinate send from a queue that is full, in a schema of its own."""
    environ = {
        **os.environ,
        "PEER_DB": _own_schema(db),
        "PYTHONPATH": str(_HERE),
        "RECEIVER_URL": at.to.url("well"),
    }
    count = int(_PROCRASTINATE_PER_SECOND * (seconds + _WARM_UP))
    _run(["procrastinate_app.py", "defer", str(count), str(Plan().payload), "0"], environ)
    with db.connect("owner") as conn:
        server = usage.postmaster(conn.info.backend_pid)
        command = ["procrastinate_app.py", "work", "0", "0", "16"]
        series = _race(command, environ, server, at, seconds)
        conn.execute("RESET ROLE")  # the schema is not Fencepost's
        row = conn.execute(
            "SELECT count(*) FROM procrastinate.procrastinate_jobs WHERE status = 'todo'"
        ).fetchone()
    if row is None or not row[0]:
        raise BenchmarkError("Procrastinate: its queue was too short to tell its speed")
    return series


def versions() -> dict[str, str]:
    """Say which versions of them are measured."""
    names = ("celery", "gevent", "procrastinate")
    ask = "from importlib.metadata import version; import sys; print(*map(version, sys.argv[1:]))"
    argv = [[_PYTHON, "-c", ask, *names], ["redis-server", "--version"]]
    told, redis = (
        subprocess.run(line, check=True, capture_output=True, text=True).stdout for line in argv
    )
    found = dict(zip(names, told.split(), strict=True))
    return {**found, "redis": redis.partition("v=")[2].partition(" ")[0]}


def _race(
    command: Sequence[str],
    environ: Mapping[str, str],
    store: int | None,
    at: Place,
    seconds: int,
) -> Series:
    """Start a worker; give two samples of it, the first one when it has run for a while."""
    arrivals, pause, until = Arrivals(at.to), threading.Event(), time.monotonic() + _PATIENCE
    with at.log.open("ab") as out:
        process = subprocess.Popen(
            tethered([_PYTHON, *command]), cwd=_HERE, env=dict(environ), stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
    try:
        while not arrivals():
            if process.poll() is not None or time.monotonic() > until:
                raise BenchmarkError(f"it sends nothing: {at.log.read_text()[-1000:]}")
            pause.wait(0.02)
        pause.wait(_WARM_UP)
        begins = _sample(process.pid, store, at.to, arrivals)
        pause.wait(seconds)
        ends = _sample(process.pid, store, at.to, arrivals)
    finally:
        _end(process)
    return Series((begins, ends), ends.done)


def _sample(pid: int, store: int | None, to: Receivers, arrivals: Arrivals) -> Sample:
    cpu = {WORKER: usage.cpu_seconds_of_all(pid), RECEIVER: to.cpu_seconds()}
    if store is not None:
        cpu[STORE] = usage.cpu_seconds_of_all(store)
    return Sample(at=time.monotonic(), done=arrivals(), cpu=cpu)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to stop, and kill it with its pool when it does not."""
    process.terminate()
    try:
        process.wait(_PATIENCE_AT_THE_END)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _run(command: Sequence[str], environ: Mapping[str, str]) -> None:
    done = subprocess.run(
        [_PYTHON, *command], cwd=_HERE, env=dict(environ), check=False, capture_output=True
    )
    if done.returncode:
        raise BenchmarkError(f"{command[0]} failed: {done.stderr.decode()[-1000:]}")


def _own_schema(db: Database) -> str:
    """Give the peer a schema of its own in the same server."""
    url = db.settings.database_url or ""
    with db.connect("owner") as conn:
        conn.execute("RESET ROLE")
        conn.execute("CREATE SCHEMA procrastinate")
    sign = "&" if "?" in url else "?"
    return f"{url}{sign}options=-csearch_path%3Dprocrastinate"
