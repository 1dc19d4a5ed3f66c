"""What publishing adds to a producer's transaction, and how fast a batch is taken in."""

from __future__ import annotations

import statistics
import time
from typing import Any, Final

from psycopg import Connection
from runs import Size, run_alone, tell
from section import Goal, Section

from fencepost.bench.database import Database, own_database
from fencepost.bench.plan import Plan
from fencepost.bench.producer import publish_many
from fencepost.producer import Producer
from fencepost.publish import publish

_BATCH: Final = 1000


def measure(size: Size) -> Section:
    """Time a transaction of one insert without and with an event; then batches of a thousand."""
    plan = Plan()
    with own_database(plan, say=tell) as db:
        with db.connect("owner") as owner:
            owner.execute("CREATE TABLE invoices (id bigint PRIMARY KEY, paid boolean)")
            owner.execute("GRANT INSERT ON invoices TO fencepost_producer")
        without, with_event = _transactions(db, plan, size.pick(1000, 10_000))
        count = size.pick(30_000, 300_000)
        with db.connect("producer") as conn:
            publish_many(conn, db.settings, plan, _BATCH, start=0, batch=_BATCH)
            began = time.perf_counter()
            publish_many(conn, db.settings, plan, count, start=_BATCH, batch=_BATCH)
            rate = count / (time.perf_counter() - began)
    added = with_event - without
    return Section(
        title="Publishing",
        goals=[
            Goal.at_most("added to the producer's transaction", added, 1, "ms"),
            Goal.at_least("batches of 1,000 taken in", rate, 15_000, "events/s"),
        ],
        method="A transaction that inserts one row, and one that publishes an event besides, take"
        " turns; medians. Then one producer publishes batches of a thousand events, each in a"
        " transaction, sealing included.",
        command="python benchmarks/publish.py [--full]",
        columns=("transaction ms", "with an event ms", "added ms", "batches of 1,000: events/s"),
        rows=[[without, with_event, added, rate]],
    )


def _transactions(db: Database, plan: Plan, count: int) -> tuple[float, float]:
    """Take turns, so that whatever else the machine does meets both."""
    producer, plain, published = Producer.of(db.settings), [], []
    with db.connect("producer") as conn:
        for number, (event_type, payload) in enumerate(plan.events(count)):
            began = time.perf_counter()
            with conn.transaction():
                _insert(conn, 2 * number)
            between = time.perf_counter()
            with conn.transaction():
                _insert(conn, 2 * number + 1)
                publish(conn, event_type, payload, producer=producer)
            plain.append((between - began) * 1000)
            published.append((time.perf_counter() - between) * 1000)
    return statistics.median(plain), statistics.median(published)


def _insert(conn: Connection[Any], number: int) -> None:
    conn.execute("INSERT INTO invoices VALUES (%s, true)", [number])


if __name__ == "__main__":
    run_alone(measure)
