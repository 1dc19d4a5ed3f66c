"""The usual ways to send webhooks from Python, at their best, on the same machine and receiver."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Final

from runs import Section, Size, run_alone, tell

from fencepost.bench import usage
from fencepost.bench.database import Database, own_database
from fencepost.bench.plan import Plan
from fencepost.bench.receivers import Receivers, receivers
from fencepost.processes import tethered

_HERE: Final = Path(__file__).parent
_PYTHON: Final = os.environ.get("PEERS_PYTHON", str(_HERE.parent / ".venv/peers/bin/python"))
_POOLS: Final = {
    "Celery, prefork 2": ("-P", "prefork", "-c", "2"),
    "Celery, prefork 4": ("-P", "prefork", "-c", "4"),
    "Celery, prefork 8": ("-P", "prefork", "-c", "8"),
    "Celery, threads 16": ("-P", "threads", "-c", "16"),
    "Celery, gevent 100": ("-P", "gevent", "-c", "100"),
}
_HOW: Final = {"requests.post": "0", "session kept": "1"}
_CELERY: Final = (
    "-m", "celery", "-A", "celery_app", "worker", "--loglevel", "ERROR",
    "--without-gossip", "--without-mingle", "--without-heartbeat",
)  # fmt: skip
_PATIENCE: Final = 180.0


def measure(size: Size) -> Section:
    """Let each send the same number of events; the clock runs from its first request."""
    count, plan = size.pick(3_000, 20_000), Plan()
    rows: list[tuple[str, float, float]] = []
    figures: dict[str, float] = {}
    with own_database(plan, say=tell) as db, receivers(plan, db.folder) as to:
        environ = {**os.environ, "RECEIVER_URL": to.url("well"), "PYTHONPATH": str(_HERE)}
        with _redis(db.folder) as broker:
            for (name, pool), (how, keep) in product(_POOLS.items(), _HOW.items()):
                there = {**environ, "BROKER_URL": broker, "KEEP_SESSION": keep}
                _run(["celery_app.py", str(count), str(plan.payload)], there)
                rows.append((f"{name}, {how}", *_race([*_CELERY, *pool], there, db, to, count)))
        there = {**environ, "PEER_DB": _own_schema(db)}
        some = count // 2
        _run(["procrastinate_app.py", "defer", str(some), str(plan.payload), "0"], there)
        command = ["procrastinate_app.py", "work", "0", "0", "16"]
        rows.append(("Procrastinate, 16, session kept", *_race(command, there, db, to, some)))
    for name, rate, _ in rows:
        first, _, how = name.split(", ")
        kind = f"{first}, {how}"
        figures[kind] = max(figures.get(kind, 0.0), rate)
    return Section(
        title="Others",
        target="none of theirs: no trail, no fencing, no signature; Redis without persistence.",
        command="python benchmarks/compared.py [--full]",
        columns=("sender", "requests/s", "CPU µs of its workers"),
        rows=rows,
        figures=figures,
    )


def measured(figures: Mapping[str, float]) -> list[str]:
    """List those of the figures that are peers'."""
    return [name for name in figures if name.startswith(("Celery", "Procrastinate"))]


def _race(
    command: Sequence[str], environ: Mapping[str, str], db: Database, to: Receivers, count: int
) -> tuple[float, float]:
    """Start a worker on a full queue; give its rate and what each request costs it."""
    tell(f"{' '.join(command[-6:])}: {count} requests")
    before, asked, pause, until = to.count(), 0, threading.Event(), time.monotonic() + _PATIENCE
    first: float | None = None
    used, started_with = 0.0, 0
    with (db.folder / "peer.log").open("ab") as log:
        process = subprocess.Popen(
            tethered([_PYTHON, *command]), cwd=_HERE, env=dict(environ), stdout=log, stderr=log
        )
        try:
            while True:
                asked += 1
                done = to.count() - before - asked
                now = time.monotonic()
                if first is None and done > 0:
                    first, started_with, used = now, done, _used(process.pid)
                if done >= count and first is not None:
                    rate = (done - started_with) / (now - first)
                    return rate, (_used(process.pid) - used) / (done - started_with) * 1e6
                if now > until or process.poll():
                    raise SystemExit((db.folder / "peer.log").read_text()[-2000:])
                pause.wait(0.02)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _used(pid: int) -> float:
    return usage.cpu_seconds_of_all(pid)


def _run(command: Sequence[str], environ: Mapping[str, str]) -> None:
    subprocess.run([_PYTHON, *command], cwd=_HERE, env=dict(environ), check=True)


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("redis-server is not installed: apt-get install redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [program, "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(folder)]
    process = subprocess.Popen(tethered(argv), stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > until:
                    raise SystemExit("redis-server does not answer") from None
                threading.Event().wait(0.05)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


def _own_schema(db: Database) -> str:
    """Give the peer a schema of its own in the same server."""
    url = db.settings.database_url or ""
    with db.connect("owner") as conn:
        conn.execute("RESET ROLE")
        conn.execute("CREATE SCHEMA procrastinate")
    sign = "&" if "?" in url else "?"
    return f"{url}{sign}options=-csearch_path%3Dprocrastinate"


if __name__ == "__main__":
    run_alone(measure)
