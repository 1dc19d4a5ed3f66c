"""How fast requests leave: ours, those of the usual ways in Python, and of bare clients."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import clients
import others
from broker import Broker, redis
from runs import TRANSPORTS, BenchmarkError, Size, quiet, run_alone, tell
from section import Goal, Section

from fencepost.bench.database import own_database
from fencepost.bench.following import RECEIVER, STORE, WORKER
from fencepost.bench.measure import measure as run_bench
from fencepost.bench.plan import Plan
from fencepost.bench.receivers import Receivers, receivers
from fencepost.bench.series import Series

_WORKERS: Final = (1, 2)
_OTHERS_SECONDS: Final = (4, 20)
_TIMES: Final = {"curl": 15.0, "requests": 3.0}
"""As fast as the best Celery."""

_ENOUGH: Final = 2.0
"""How many times faster than ours the receiver alone must be."""


@dataclass(frozen=True, slots=True)
class Speed:
    """What a sender reached, and what each request cost whom; None: not measured."""

    per_second: float
    sender_us: float | None = None
    store_us: float | None = None
    receiver_us: float | None = None


Contest = Callable[[Receivers], Speed]


def measure(size: Size) -> Section:
    """Let all send to one receiver, one after the other, ours between theirs."""
    found: dict[str, list[Speed]] = {}
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # nginx runs as another user
        with receivers(Plan(), folder) as to, redis(folder) as broker:
            others.fill(broker, size.pick(*_OTHERS_SECONDS))
            for _ in range(size.pick(1, 3)):
                for sender, contest in _contests(size, broker, folder / "others.log"):
                    tell(sender)
                    found.setdefault(sender, []).append(contest(to))
            alone, versions = to.alone_per_second, {"receiver": to.kind, **others.versions()}
    speeds = {sender: _middle(tries) for sender, tries in found.items()}
    best = {how: _best(speeds, "Celery", how) for how in others.HOW}
    fastest = _best(speeds, "Fencepost", "")
    rows = [
        [
            sender,
            speed.per_second,
            *(speed.per_second / one for one in best.values()),
            speed.sender_us,
            speed.store_us,
            speed.receiver_us,
        ]
        for sender, speed in speeds.items()
    ]
    rows.append(["the receiver, asked by plain sockets", alone, *(None,) * 5])
    return Section(
        title="Deliveries per second",
        goals=_goals(speeds, best),
        method=_METHOD + ("" if alone >= _ENOUGH * fastest else _LIMITED),
        command="python benchmarks/delivered.py [--full]",
        columns=("sender", "requests/s", *(f"times best Celery, {how}" for how in best),
                 "CPU µs sender", "database or broker", "receiver"),
        rows=rows,
        versions=versions,
    )  # fmt: skip


_METHOD: Final = """\
All send 500 bytes to one receiver, which answers 204, in one run and one after the other. Ours
deliver a backlog with everything on that is on in production: fsync, triggers, partitions, five
rows of trail for each, a signature, sealed payloads; the rate is that of the middle eight tenths.
Celery has Redis without persistence, and no trail, fencing or signature; its rate, as
Procrastinate's, is taken from a second after the first request on, with a queue that does not run
dry. The bare clients send in a loop, and do nothing else: what is built on them cannot be faster.
Processor time is that of all processes of a kind, for each request."""

_LIMITED: Final = """
The receiver alone is hardly faster than the fastest of ours: that figure is the receiver's."""


def _contests(size: Size, broker: Broker, log: Path) -> Iterator[tuple[str, Contest]]:
    """Name the contests of a round: no kind comes all at once, for the machine may change."""
    own = [
        (
            f"Fencepost, {transport}, {count} worker{'s' * (count > 1)}",
            _ours(size, transport, count),
        )
        for transport in reversed(TRANSPORTS)
        for count in _WORKERS
    ]
    seconds = size.pick(*_OTHERS_SECONDS)
    for name, loop, threads in clients.LOOPS:
        yield name, _bare(loop, threads, size.pick(2, 10))
    for pool in others.POOLS:
        if own:
            yield own.pop(0)
        for how in others.HOW:
            yield f"Celery, {pool}, {how}", _celery(pool, how, broker, log, seconds)
    yield from own
    yield "Procrastinate, 16, session kept", _procrastinate(log, seconds)


def _ours(size: Size, transport: str, workers: int) -> Contest:
    count = {"requests": size.pick(15_000, 60_000), "curl": size.pick(80_000, 400_000)}[transport]

    def contest(to: Receivers) -> Speed:
        plan = Plan(transport=transport, workers=workers, deliveries=count, parts=("drain",))
        with own_database(plan, say=tell) as db:
            figures = run_bench(db, plan, to, _unwatched)
        drained = figures.drained
        if figures.broken or drained is None or drained.per_second is None:
            raise BenchmarkError(f"nothing was measured, or what must hold does not: {figures}")
        return Speed(
            drained.per_second,
            drained.worker_cpu_us,
            drained.postgres_cpu_us,
            drained.receiver_cpu_us,
        )

    return contest


def _bare(loop: clients.Loop, threads: int, seconds: int) -> Contest:
    def contest(to: Receivers) -> Speed:
        return _of(clients.race(loop, to, b"x" * Plan().payload, threads, seconds))

    return contest


def _celery(pool: str, how: str, broker: Broker, log: Path, seconds: int) -> Contest:
    def contest(to: Receivers) -> Speed:
        return _of(others.celery(pool, how, broker, others.Place(to, log), seconds))

    return contest


def _procrastinate(log: Path, seconds: int) -> Contest:
    def contest(to: Receivers) -> Speed:
        with own_database(Plan(), say=tell) as db:
            return _of(others.procrastinate(db, others.Place(to, log), seconds))

    return contest


def _of(race: Series) -> Speed:
    if race.per_second is None:
        raise BenchmarkError("it sent nothing")
    return Speed(race.per_second, *map(race.cpu_us, (WORKER, STORE, RECEIVER)))


def _goals(speeds: Mapping[str, Speed], best: Mapping[str, float]) -> list[Goal]:
    one, two = (_best(speeds, "Fencepost, curl", f"{n} worker") for n in _WORKERS)
    requests = _best(speeds, "Fencepost, requests", "2 worker")
    goals = [
        Goal.at_least("curl, one worker", one, 8_000, "deliveries/s"),
        Goal.at_least("curl, two workers", two, 10_000, "deliveries/s"),
        Goal.at_least("requests, two workers", requests, 2_000, "deliveries/s"),
    ]
    return goals + [
        Goal.at_least(
            f"{transport} : best Celery, {how}",
            _best(speeds, f"Fencepost, {transport}", "") / peer,
            times,
            "times",
        )
        for transport, times in _TIMES.items()
        for how, peer in best.items()
    ]


def _best(speeds: Mapping[str, Speed], begins: str, has: str) -> float:
    return max(
        speed.per_second
        for sender, speed in speeds.items()
        if sender.startswith(begins) and has in sender
    )


def _middle(tries: list[Speed]) -> Speed:
    """Give the one of the middle rate: all its figures belong together."""
    rate = statistics.median_low(one.per_second for one in tries)
    return next(one for one in tries if one.per_second == rate)


@contextmanager
def _unwatched(what: str, total: int) -> Iterator[Callable[[int], None]]:
    del what, total
    yield quiet


if __name__ == "__main__":
    run_alone(measure)
