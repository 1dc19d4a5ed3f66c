"""A producer as a program of its own: publishes a plan's events, at once or at a steady pace."""

from __future__ import annotations

import argparse
import json
import threading
import time
from itertools import islice
from typing import Any, Final

from psycopg import Connection

from fencepost.bench.plan import Plan
from fencepost.producer import NewEvent, Producer
from fencepost.publish import publish_sealed_many
from fencepost.settings import Settings
from fencepost.store.pool import connect

_TICK: Final = 0.01
"""Seconds between two transactions of a steady producer."""


def publish_many(
    conn: Connection[Any], settings: Settings, plan: Plan, count: int, *, start: int, batch: int
) -> None:
    """Publish events as a producer does, in transactions of ``batch``, and no more."""
    producer = Producer.of(settings)
    events = plan.events(count, start=start)
    while some := [NewEvent(*event) for event in islice(events, batch)]:
        with conn.transaction():
            publish_sealed_many(conn, some, producer=producer)


def main() -> None:
    """Publish what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=lambda text: Plan(**json.loads(text)), required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--start", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--rate", type=float)
    chosen = parser.parse_args()
    settings = Settings.load()
    if settings.database_url is None:
        raise SystemExit("a producer needs FENCEPOST_DATABASE_URL")
    with connect(settings.database_url, role="producer", schema=settings.schema) as conn:

        def publish(count: int, start: int) -> None:
            publish_many(conn, settings, chosen.plan, count, start=start, batch=chosen.batch)

        if chosen.rate is None:
            publish(chosen.count, chosen.start)
            return
        began, done, pause = time.monotonic(), 0, threading.Event()
        while done < chosen.count:
            wanted = min(chosen.count, int((time.monotonic() - began) * chosen.rate) + 1)
            publish(wanted - done, chosen.start + done)
            done = wanted
            pause.wait(_TICK)


if __name__ == "__main__":
    main()
