"""A producer as a program of its own: publishes a plan's events, at once or at a steady pace."""

from __future__ import annotations

import argparse
import json
import threading
import time
from dataclasses import asdict
from typing import Final

from fencepost.bench.load import publish_many
from fencepost.bench.plan import Plan
from fencepost.processes import module_argv
from fencepost.settings import Settings
from fencepost.store.pool import connect

_TICK: Final = 0.01
"""Seconds between two transactions of a steady producer."""


def argv(plan: Plan, count: int, *, start: int, rate: float | None = None) -> list[str]:
    """Give the command line that publishes so many events.

    Args:
        plan: invents them.
        count: how many.
        start: number of the first.
        rate: a second; None: as fast as it goes, a hundred in each transaction.
    """
    chosen = ["--plan", json.dumps(asdict(plan)), "--count", str(count), "--start", str(start)]
    paced = [] if rate is None else ["--rate", str(rate)]
    return module_argv("fencepost.bench.producer", *chosen, *paced)


def main() -> None:
    """Publish what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=lambda text: Plan(**json.loads(text)), required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--start", type=int, required=True)
    parser.add_argument("--rate", type=float)
    chosen = parser.parse_args()
    settings = Settings.load()
    if settings.database_url is None:
        raise SystemExit("a producer needs FENCEPOST_DATABASE_URL")
    with connect(settings.database_url, role="producer", schema=settings.schema) as conn:

        def publish(count: int, start: int) -> None:
            publish_many(conn, settings, chosen.plan, count, start=start, batch=100)

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
