"""A run in three parts: drain a backlog, publish and deliver at once, deliver at a steady rate."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row

from fencepost.bench import load, producer, usage
from fencepost.bench.database import Database
from fencepost.bench.figures import Figures, Waits
from fencepost.bench.plan import WELL, Plan
from fencepost.bench.receivers import Receivers
from fencepost.bench.story import tell
from fencepost.bench.workers import Workers, workers
from fencepost.errors import FencepostError
from fencepost.processes import tethered
from fencepost.store import invariants
from fencepost.store.queries import load as load_sql

_SQL: Final = load_sql("bench.sql")
_TICK: Final = 0.1
_STALLED_AFTER: Final = 90.0
"""Seconds without one more request."""


class StalledError(FencepostError):
    """Nothing is delivered any more, and something is left to deliver."""


class Watch(Protocol):
    """Shows how one part of a run goes on."""

    def __call__(self, what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Begin to show the way to ``total``; what the block gets is told how many are done."""


def measure(db: Database, plan: Plan, to: Receivers, watch: Watch) -> Figures:
    """Run the plan on an empty database.

    Raises:
        WorkerError, StalledError: something did not work; there are no figures then.
    """
    run = _Run(db, plan, to, watch, load.subscribe(db, plan, to))
    load.pause_all(db)
    with watch("Making the backlog", plan.deliveries) as show:
        load.add_due(db, plan, plan.deliveries, show=show)
    if plan.backlog:
        with watch("Making what waits behind it", plan.backlog) as show:
            if plan.is_sleeping:
                load.add_waiting(db, plan.backlog, show=show)
            else:
                load.add_due(db, plan, plan.backlog, start=plan.deliveries, show=show)
    with db.connect("owner") as conn:
        conn.execute("SET statement_timeout = 0")
        with workers(db, plan.workers) as at_work:
            found = run.all_parts(conn, at_work)
        return replace(
            found,
            broken=invariants.broken(conn, since=run.began),
            timeline=tell(conn, plan, random.SystemRandom()),
        )


@dataclass(slots=True)
class _Run:
    db: Database
    plan: Plan
    to: Receivers
    watch: Watch
    subscriptions: dict[str, UUID]
    began: Any = None

    @property
    def _well(self) -> list[UUID]:
        return [id_ for name, id_ in self.subscriptions.items() if name.startswith(WELL)]

    def all_parts(self, conn: Connection[Any], at_work: Workers) -> Figures:
        server = self._server(conn)
        self.began = server.pop("now")
        backend = usage.postmaster(server.pop("backend"))
        figures = Figures(
            plan=self.plan,
            **self._drain(conn, at_work, backend),
            published_to_delivered_per_second=None,
            steady_rate=self.plan.rate,
            queue_wait_ms=None,
            ingest_ms=None,
            worker_rss_mb=None,
            receiver=self.to.kind,
            receiver_per_second=self.to.alone_per_second,
            server=server,
        )
        if not self.plan.backlog or self.plan.is_sleeping:
            rate = self._publish_and_deliver(conn, at_work)
            figures = replace(figures, published_to_delivered_per_second=rate)
            figures = replace(figures, **self._steady(conn, at_work, rate))
        return replace(figures, worker_rss_mb=at_work.peak_memory_mb())

    def _drain(self, conn: Connection[Any], at_work: Workers, server: int | None) -> dict[str, Any]:
        """Let the backlog go, and see what it costs."""
        used, used_by_server = at_work.cpu_seconds(), _used(server)
        since = self._server(conn)["now"]
        load.resume_all(self.db)
        self._await("Draining", self.plan.well_ones(self.plan.deliveries), conn, at_work)
        used, used_by_server = at_work.cpu_seconds() - used, _used(server) - used_by_server
        delivered, rate = self._rate(conn, since, "LEASED")
        return {
            "deliveries_per_second": rate,
            "worker_cpu_us": used / delivered * 1e6 if usage.is_measurable() else None,
            "postgres_cpu_us": None if server is None else used_by_server / delivered * 1e6,
        }

    def _publish_and_deliver(self, conn: Connection[Any], at_work: Workers) -> float | None:
        since = self._server(conn)["now"]
        self._publish("Publishing and delivering", self.plan.deliveries, None, conn, at_work)
        return self._rate(conn, since, "RECEIVED")[1]

    def _steady(
        self, conn: Connection[Any], at_work: Workers, reached: float | None
    ) -> dict[str, Any]:
        rate = self.plan.rate or (reached or 0) / 2
        since = self._server(conn)["now"]
        count = max(1, int(rate * self.plan.seconds))
        self._publish("Delivering at a steady rate", count, rate, conn, at_work)
        with conn.cursor(row_factory=dict_row) as cur:
            row = cur.execute(_SQL.measure_waits, {"since": since, "ids": self._well}).fetchone()
        if row is None or row["wait_p50"] is None:
            return {"steady_rate": rate}
        waits, ingests = (
            Waits(**{name: row[f"{kind}_{name}"] for name in ("p50", "p95", "p99")})
            for kind in ("wait", "ingest")
        )
        return {"steady_rate": rate, "queue_wait_ms": waits, "ingest_ms": ingests}

    def _publish(
        self, what: str, count: int, rate: float | None, conn: Connection[Any], at_work: Workers
    ) -> None:
        argv = producer.argv(self.plan, count, start=self.plan.deliveries, rate=rate)
        log = self.db.folder / "producer.log"
        with log.open("ab") as out:
            publisher = subprocess.Popen(  # noqa: S603 - our own program
                tethered(argv), env=dict(self.db.environ), stdout=out, stderr=out
            )
            try:
                expected = self.plan.well_ones(count, start=self.plan.deliveries)
                self._await(what, expected, conn, at_work, publisher)
            finally:
                publisher.terminate()
                publisher.wait()

    def _await(
        self,
        what: str,
        expected: int,
        conn: Connection[Any],
        at_work: Workers,
        publisher: subprocess.Popen[bytes] | None = None,
    ) -> None:
        """Wait until so many requests have come, and no outcome of theirs is missing."""
        ticker, asked, first, last, idle = threading.Event(), 0, self.to.count(), 0, 0.0
        endless = self.plan.backlog and not self.plan.is_sleeping
        with self.watch(what, expected) as show:
            while True:
                at_work.check()
                if publisher is not None and publisher.poll():
                    said = (self.db.folder / "producer.log").read_text(encoding="utf-8")
                    raise StalledError(f"the producer failed: {said[-300:]}")
                asked += 1
                done = self.to.count() - first - asked
                idle = 0.0 if done > last else idle + _TICK
                last = done
                show(min(done, expected))
                if done >= expected and (endless or self._is_settled(conn)):
                    return
                if idle > _STALLED_AFTER:
                    raise StalledError(f"{what}: {done} of {expected}, and no more comes")
                ticker.wait(_TICK)

    def _is_settled(self, conn: Connection[Any]) -> bool:
        return conn.execute(_SQL.count_unfinished, {"ids": self._well}).fetchone() == (0,)

    def _server(self, conn: Connection[Any]) -> dict[str, Any]:
        with conn.cursor(row_factory=dict_row) as cur:
            return cur.execute(_SQL.read_server).fetchone() or {}

    def _rate(self, conn: Connection[Any], since: object, first: str) -> tuple[int, float | None]:
        row = conn.execute(_SQL.measure_rate, {"since": since, "first": first}).fetchone()
        delivered, seconds = row or (0, None)
        return max(1, delivered), delivered / seconds if seconds else None


def _used(server: int | None) -> float:
    return 0.0 if server is None else usage.cpu_seconds_of_all(server)
