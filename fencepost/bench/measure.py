"""A run in three parts: drain a backlog, publish and deliver at once, deliver at a steady rate."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row

from fencepost.bench import load, trail, usage
from fencepost.bench.database import Database
from fencepost.bench.figures import Drained, Figures, Steady
from fencepost.bench.following import RECEIVER, STORE, WORKER, Follower, Sampler, Watch
from fencepost.bench.plan import WELL, Plan
from fencepost.bench.producing import producing
from fencepost.bench.receivers import Receivers
from fencepost.bench.series import Series
from fencepost.bench.story import tell
from fencepost.bench.workers import workers
from fencepost.store import invariants
from fencepost.store.queries import load as load_sql

_SQL: Final = load_sql("bench.sql")


def measure(db: Database, plan: Plan, to: Receivers, watch: Watch) -> Figures:
    """Run the plan on an empty database.

    Raises:
        WorkerError, ProducerError, StalledError: something did not work; there are no figures then.
    """
    subscriptions = load.subscribe(db, plan, to)
    with db.connect("owner") as conn:
        server = _server(conn)
        began = server.pop("now")
        run = _Run(db, plan, to, watch, subscriptions, conn, usage.postmaster(server.pop("pid")))
        run.prepare()
        drained, published, steady, peak = run.all_parts()
        return Figures(
            plan=plan,
            drained=drained,
            published_to_delivered_per_second=published,
            steady=steady,
            worker_rss_mb=peak,
            receiver=to.kind,
            receiver_per_second=to.alone_per_second,
            server=server,
            broken=invariants.broken(conn, since=began),
            timeline=tell(conn, plan, random.SystemRandom()),
        )


@dataclass(frozen=True, slots=True)
class _Run:
    db: Database
    plan: Plan
    to: Receivers
    watch: Watch
    subscriptions: dict[str, UUID]
    conn: Connection[Any]
    server: int | None

    @property
    def _drained(self) -> int:
        return self.plan.deliveries if "drain" in self.plan.parts else 0

    @property
    def _is_endless(self) -> bool:
        return bool(self.plan.backlog) and not self.plan.is_sleeping

    def prepare(self) -> None:
        """Make what waits before the first worker starts."""
        if self._drained:
            with self.watch("Making the backlog", self._drained) as show:
                load.add_due(self.db, self.plan, self._drained, show=show)
        if self.plan.backlog:
            with self.watch("Making what waits behind it", self.plan.backlog) as show:
                if self.plan.is_sleeping:
                    load.add_waiting(self.db, self.plan.backlog, show=show)
                else:
                    start = self._drained
                    load.add_due(self.db, self.plan, self.plan.backlog, start=start, show=show)

    def all_parts(self) -> tuple[Drained | None, float | None, Steady | None, float | None]:
        """Start workers, let the parts of the plan follow each other, and stop the workers."""
        drained, published, steady = None, None, None
        since, sampler = self._now(), Sampler(self.to, self.server)
        with workers(self.db, self.plan.workers) as at_work:
            sampler.at_work = at_work
            follow = Follower(
                conn=self.conn,
                at_work=at_work,
                well=[id_ for name, id_ in self.subscriptions.items() if name.startswith(WELL)],
                is_endless=self._is_endless,
                watch=self.watch,
            )
            if self._drained:
                series = follow("Draining", self.plan.well_ones(self._drained), sampler)
                drained = self._figures_of(series, since)
            # Nothing published now would come before a backlog that is due.
            if "published" in self.plan.parts and not self._is_endless:
                published = self._publish_and_deliver(follow)
            if "steady" in self.plan.parts and not self._is_endless:
                reached = published or (drained.per_second if drained else None) or 0.0
                steady = self._deliver_steadily(follow, self.plan.rate or reached / 2)
            return drained, published, steady, at_work.peak_memory_mb()

    def _figures_of(self, series: Series, since: object) -> Drained:
        even = series.steady()
        return Drained(
            per_second=trail.drained_per_second(self.conn, since) or series.per_second,
            worker_cpu_us=even.cpu_us(WORKER),
            postgres_cpu_us=even.cpu_us(STORE),
            receiver_cpu_us=even.cpu_us(RECEIVER),
            memory_mb={
                share: memory
                for share in range(10, 101, 10)
                if (memory := series.at_share(share / 100).memory_mb) is not None
            },
        )

    def _publish_and_deliver(self, follow: Follower) -> float | None:
        since, count = self._now(), max(1, self.plan.deliveries // 2)
        self._publish("Publishing and delivering", count, None, follow)
        return trail.arrived_per_second(self.conn, since)

    def _deliver_steadily(self, follow: Follower, rate: float) -> Steady:
        since, count = self._now(), max(1, int(rate * self.plan.seconds))
        self._publish("Delivering at a steady rate", count, rate, follow)
        wait, ingest = trail.waits(self.conn, since, follow.well) or (None, None)
        return Steady(rate=rate, queue_wait_ms=wait, ingest_ms=ingest)

    def _publish(self, what: str, count: int, rate: float | None, follow: Follower) -> None:
        start, sampler = self._drained, Sampler(self.to, self.server, follow.at_work)
        with producing(self.db, self.plan, count, start=start, rate=rate) as producer:
            follow(what, self.plan.well_ones(count, start=start), sampler, producer)

    def _now(self) -> object:
        return _server(self.conn)["now"]


def _server(conn: Connection[Any]) -> dict[str, Any]:
    with conn.cursor(row_factory=dict_row) as cur:
        return cur.execute(_SQL.read_server).fetchone() or {}
