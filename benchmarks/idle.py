"""How long an event takes from commit to receiver in an idle system, and what idling costs."""

from __future__ import annotations

import os
import random
import socket
import statistics
import threading
import time
from typing import Any, Final

from psycopg import Connection
from runs import BenchmarkError, Size, run_alone, tell
from section import Goal, Section

from fencepost.bench import load
from fencepost.bench.database import own_database
from fencepost.bench.plan import Plan
from fencepost.bench.receivers import Receivers
from fencepost.bench.workers import workers
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
    """Publish one event after another, at odd moments, to a worker that has nothing to do."""
    clock, plan, pause = _Clock(), Plan(subscriptions=1), threading.Event()
    with own_database(plan, say=tell) as db:
        load.subscribe(db, plan, Receivers("clock", clock.port, clock.port, 0.0))
        producer = Producer.of(db.settings)
        with workers(db, 1), db.connect("producer") as conn, db.connect("owner") as owner:
            pause.wait(2)
            before = _transactions(owner)
            pause.wait(_QUIET_SECONDS)
            statements = (_transactions(owner) - before - 1) / _QUIET_SECONDS
            latencies = []
            for event_type, payload in plan.events(size.pick(150, 1000)):
                clock.came.clear()
                with conn.transaction():
                    publish(conn, event_type, payload, producer=producer)
                began = time.perf_counter()
                if not clock.came.wait(30):
                    raise BenchmarkError("an event did not arrive within 30 s")
                latencies.append((clock.at - began) * 1000)
                pause.wait(random.SystemRandom().uniform(0.05, 0.35))
    centiles = statistics.quantiles(latencies, n=100)
    return Section(
        title="Latency of an idle worker",
        goals=[
            Goal.at_most("commit to receiver p99, with the doorbell", centiles[98], 50, "ms"),
            Goal.at_most("an idle worker asks", statements, 20, "statements/s"),
        ],
        command="python benchmarks/idle.py [--full]",
        columns=("events", "p50 ms", "p95 ms", "p99 ms", "transactions/s", "load of the machine"),
        rows=[[len(latencies), centiles[49], centiles[94], centiles[98], statements,
               os.getloadavg()[0]]],
    )  # fmt: skip


def _transactions(conn: Connection[Any]) -> int:
    """Count what this database has run: in autocommit, a statement is a transaction."""
    row = conn.execute(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database"
        " WHERE datname = current_database()"
    ).fetchone()
    return 0 if row is None else int(row[0])


if __name__ == "__main__":
    run_alone(measure)
