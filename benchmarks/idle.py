"""How long an event takes from commit to receiver in an idle system, and what idling costs."""

from __future__ import annotations

import os
import random
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import Connection
from runs import BenchmarkError, Size, environment, run_alone, tell
from section import Goal, Section

from fencepost.bench import load
from fencepost.bench.database import own_database
from fencepost.bench.plan import Plan
from fencepost.bench.receivers import Receivers
from fencepost.bench.workers import workers
from fencepost.embedded import Embedded
from fencepost.producer import Producer
from fencepost.publish import publish

_QUIET_SECONDS: Final = 10.0
_ANSWER: Final = b"HTTP/1.1 204 No Content\r\n\r\n"


class _Clock:
    """A receiver that notes when each request comes; one at a time is enough."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: Final = self._listener.getsockname()[1]
        self.came = threading.Event()
        self.at = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        while data := sock.recv(65_536):
            if data.startswith(b"POST"):
                self.at = time.perf_counter()
                sock.sendall(_ANSWER)
                self.came.set()


def measure(size: Size) -> Section:
    """Measure with the doorbell and by polling, with one worker and with two."""
    rows: list[list[object]] = []
    goals: list[Goal] = []
    for hears, limit in ((True, 50), (False, 150)):
        mode = "with the doorbell" if hears else "by polling"
        for count in (1, 2):
            tell(f"idle, {mode}, workers: {count}")
            statements, latencies = run(count, hears=hears, events=size.pick(150, 1000))
            centiles = statistics.quantiles(latencies, n=100)
            rows.append(
                [
                    mode,
                    count,
                    len(latencies),
                    centiles[49],
                    centiles[94],
                    centiles[98],
                    statements,
                    os.getloadavg()[0],
                ]
            )
            goals += [
                Goal.at_most(
                    f"commit to receiver p99, {mode}, workers: {count}", centiles[98], limit, "ms"
                ),
                Goal.at_most(
                    f"an idle worker asks, {mode}, workers: {count}", statements, 20, "statements/s"
                ),
            ]
    return Section(
        title="Latency of an idle worker",
        goals=goals,
        command="python benchmarks/idle.py [--full]",
        columns=("", "workers", "events", "p50 ms", "p95 ms", "p99 ms",
                 "statements/s of each worker", "load of the machine"),
        rows=rows,
    )  # fmt: skip


def run(count: int, *, hears: bool, events: int) -> tuple[float, list[float]]:
    """Publish one event after another, at odd moments, to workers that have nothing to do.

    Args:
        count: of workers.
        hears: whether producers ring for them.
        events: how many.

    Returns:
        What each worker asks in a second while nothing happens, and each event's milliseconds
        from commit to receiver.
    """
    clock, plan, pause = _Clock(), Plan(subscriptions=1), threading.Event()
    latencies = []
    with (
        _counting_server() as url,
        environment(FENCEPOST_DATABASE_URL=url),
        own_database(plan, say=tell) as made,
    ):
        db = replace(made, environ={**made.environ, "FENCEPOST_DOORBELL": str(int(hears))})
        load.subscribe(db, plan, Receivers("clock", clock.port, clock.port, 0.0))
        producer = Producer.of(db.settings)
        with (
            workers(db, count),
            db.connect("producer") as conn,
            psycopg.connect(db.environ["FENCEPOST_DATABASE_URL"], autocommit=True) as counter,
        ):
            counter.execute("CREATE EXTENSION pg_stat_statements")
            pause.wait(2)
            before = _statements(counter)
            pause.wait(_QUIET_SECONDS)
            statements = (_statements(counter) - before - 1) / _QUIET_SECONDS / count
            for event_type, payload in plan.events(events):
                clock.came.clear()
                with conn.transaction():
                    publish(conn, event_type, payload, producer=producer)
                began = time.perf_counter()
                if not clock.came.wait(30):
                    raise BenchmarkError("an event did not arrive within 30 s")
                latencies.append((clock.at - began) * 1000)
                pause.wait(random.SystemRandom().uniform(0.05, 0.35))
    return statements, latencies


@contextmanager
def _counting_server() -> Iterator[str]:
    """Run a server that counts statements, whichever is set; give its superuser's address."""
    with (
        tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder,
        Embedded(
            Path(folder) / "home",
            configuration={"shared_preload_libraries": "pg_stat_statements"},
        ) as server,
    ):
        yield server.superuser_url()


def _statements(conn: Connection[Any]) -> int:
    """Count what this database was asked, BEGIN and COMMIT included."""
    row = conn.execute(
        "SELECT sum(calls)::bigint FROM pg_stat_statements"
        " WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
    ).fetchone()
    return 0 if row is None else int(row[0])


if __name__ == "__main__":
    run_alone(measure)
