"""A producer that runs beside a benchmark: what ``producer`` does, in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from fencepost.bench.database import Database
from fencepost.bench.plan import Plan
from fencepost.errors import FencepostError
from fencepost.processes import module_argv, tethered

_LARGE_TRANSACTION: Final = 100


class ProducerError(FencepostError):
    """The producer failed; the message ends with what it said."""


@dataclass(frozen=True, slots=True)
class Running:
    """A producer that is at work, or done."""

    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raise ProducerError when it has failed."""
        if self.process.poll():
            said = self.log.read_text(encoding="utf-8", errors="replace")
            raise ProducerError(f"the producer failed: {said[-300:]}")


@contextmanager
def producing(
    db: Database,
    plan: Plan,
    count: int,
    *,
    start: int,
    rate: float | None = None,
    batch: int = _LARGE_TRANSACTION,
) -> Iterator[Running]:
    """Run a producer for as long as the block takes.

    Args:
        db: where it publishes.
        plan: invents the events.
        count: how many.
        start: number of the first.
        rate: events a second; None: as fast as it goes.
        batch: events in a transaction, at most.
    """
    chosen = {"plan": json.dumps(asdict(plan)), "count": count, "start": start, "batch": batch}
    paced = {} if rate is None else {"rate": rate}
    options = [f"--{name}={value}" for name, value in (chosen | paced).items()]
    log = db.folder / "producer.log"
    with log.open("ab") as out:
        process = subprocess.Popen(  # noqa: S603 - our own program
            tethered(module_argv("fencepost.bench.producer", *options)),
            env=dict(db.environ),
            stdout=out,
            stderr=out,
        )
    try:
        yield Running(process, log)
    finally:
        process.terminate()
        process.wait()
