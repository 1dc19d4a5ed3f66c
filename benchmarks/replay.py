"""How fast a bulk replay requeues dead letters, and what live deliveries notice of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from runs import TRANSPORTS, BenchmarkError, Size, quiet, run_alone, tell
from section import Goal, Section

from fencepost.bench import load, trail
from fencepost.bench.database import Database, own_database
from fencepost.bench.plan import Plan
from fencepost.bench.producing import Running, producing
from fencepost.bench.receivers import receivers
from fencepost.bench.trail import Waits
from fencepost.bench.workers import Workers, workers
from fencepost.filters import DeliveryFilter
from fencepost.records import Replay
from fencepost.store import invariants, replays

_LIVE_RATE: Final = 100
"""Events a second, half of them to the subscription that is replayed."""

_BEFORE_SECONDS: Final = 15.0
_WARM_UP_SECONDS: Final = 3.0
_SENDING_SECONDS: Final = 15.0
_PATIENCE: Final = 600.0
_PER_SECOND: Final = 1_000_000 / 60
_MOST: Final = 2.0
_REPLAYED, _OTHER = "well_0", "well_1"


@dataclass(frozen=True, slots=True)
class _Found:
    """What one run found: the replay, and waits of each subscription in each stretch of time."""

    replay: Replay
    waits: Mapping[tuple[str, str], Waits]

    @property
    def per_second(self) -> float:
        if self.replay.started_at is None or self.replay.finished_at is None:
            raise BenchmarkError("the replay has not ended")
        seconds = (self.replay.finished_at - self.replay.started_at).total_seconds()
        return self.replay.requeued / seconds


def measure(size: Size) -> Section:
    """Replay dead letters of one of two subscriptions, both of which get live events."""
    count = size.pick(100_000, 1_000_000)
    rows: list[list[object]] = []
    goals = []
    for transport in TRANSPORTS:
        found = _run(transport, count)
        goals.append(Goal.at_least(
            f"{transport}, dead letters requeued", found.per_second, _PER_SECOND, "per second"
        ))  # fmt: skip
        for name, told in ((_REPLAYED, "the same subscription"), (_OTHER, "another")):
            before = found.waits["before", name]
            during = found.waits["while requeueing", name]
            what = f"{transport}, live p99 wait of {told}, while requeueing : before"
            goals.append(Goal.at_most(what, during.p99 / before.p99, _MOST, "times"))
        rows += [
            [transport, when, name == _REPLAYED, waits.p50, waits.p95, waits.p99]
            for (when, name), waits in found.waits.items()
        ]
    return Section(
        title="Bulk replay",
        goals=goals,
        method=f"{count:,} dead letters of one subscription are replayed without a rate, while"
        f" it and another get live events, {_LIVE_RATE} a second together; one worker requeues, and"
        " sends what it requeues. Waits are those of live deliveries: from when they could be sent"
        " to when the worker took them.",
        command="python benchmarks/replay.py [--full]",
        columns=("transport", "live deliveries made", "replayed too", "p50 ms", "p95 ms", "p99 ms"),
        rows=rows,
    )  # fmt: skip


def _run(transport: str, count: int) -> _Found:
    plan = Plan(transport=transport, subscriptions=2)
    with own_database(plan, say=tell) as db, receivers(plan, db.folder) as to:
        subscriptions = load.subscribe(db, plan, to)
        tell(f"replay, {transport}: making {count:,} dead letters")
        load.add_due(db, Plan(subscriptions=1), count, show=quiet)
        load.bury(db, show=quiet)
        with db.connect("owner") as conn:
            conn.execute("VACUUM (ANALYZE) webhook_deliveries, webhook_delivery_attempts")
            with (
                workers(db, 1) as at_work,
                producing(db, plan, 1_000_000, start=count, rate=_LIVE_RATE) as producer,
            ):
                found = _measure(db, conn, subscriptions, _Parties(at_work, producer))
            if broken := invariants.broken(conn):
                raise BenchmarkError(f"these do not hold: {broken}")
            return found


@dataclass(frozen=True, slots=True)
class _Parties:
    """Who must not end meanwhile."""

    at_work: Workers
    producer: Running

    def wait(self, seconds: float) -> None:
        self.at_work.check()
        self.producer.check()
        threading.Event().wait(seconds)


def _measure(
    db: Database, conn: Connection[Any], subscriptions: Mapping[str, UUID], others: _Parties
) -> _Found:
    others.wait(_WARM_UP_SECONDS)
    moments = [_now(conn)]
    others.wait(_BEFORE_SECONDS)
    moments.append(_now(conn))
    replay = _replay(db, conn, others)
    moments += [replay.started_at, replay.finished_at]
    others.wait(_SENDING_SECONDS)
    moments.append(_now(conn))
    others.wait(1)
    stretches = {"before": moments[0:2], "while requeueing": moments[2:4], "after": moments[3:5]}
    return _Found(
        replay,
        {
            (when, name): _waits(conn, stretch, subscriptions[name])
            for when, stretch in stretches.items()
            for name in (_REPLAYED, _OTHER)
        },
    )


def _replay(db: Database, conn: Connection[Any], others: _Parties) -> Replay:
    """Draft and start it as an operator does, and wait until all are requeued."""
    with db.connect("dashboard") as door, door.transaction():
        draft = replays.draft_replay(door, DeliveryFilter(), reason="bench", actor="bench")
        replays.start_replay(door, draft.id, actor="bench", confirm=draft.eligible)
    tell(f"replaying {draft.eligible:,}")
    until = time.monotonic() + _PATIENCE
    while (found := replays.get_replay(conn, draft.id)).state == "RUNNING":
        others.wait(0.2)
        if time.monotonic() > until:
            raise BenchmarkError(f"the replay does not end: {found}")
    if (found.state, found.requeued) != ("DONE", draft.eligible):
        raise BenchmarkError(f"the replay went wrong: {found}")
    return found


def _waits(conn: Connection[Any], stretch: Sequence[object], sub: UUID) -> Waits:
    since, until = stretch
    found = trail.waits(conn, since, [sub], until=until)
    if found is None:
        raise BenchmarkError("no live delivery was made meanwhile")
    return found[0]


def _now(conn: Connection[Any]) -> object:
    row = conn.execute("SELECT fencepost_now()").fetchone()
    return None if row is None else row[0]


if __name__ == "__main__":
    run_alone(measure)
