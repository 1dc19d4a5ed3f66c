"""``fencepost worker --processes N``: one that dies is replaced, all drain, none is left behind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from factories import publish, subscribe
from fencepost.bench.usage import children
from fencepost.keyring import Keyring
from invariants import check
from programs import Running, is_alive
from receiver import Answer, Receiver
from waiting import eventually

PROCESSES = 2
FIRST_SHARE = 2
"""Requests that a worker opens to a subscription before its first success."""

OPEN = PROCESSES * FIRST_SHARE


class Workers(Running):
    """The command; ``pids`` are its workers'."""

    def __init__(self, environ: dict[str, str], log: Path) -> None:
        command = [sys.executable, "-P", "-m", "fencepost", "worker"]
        super().__init__([*command, "--processes", str(PROCESSES), "--name", "twin"], environ, log)

    @property
    def pids(self) -> set[int]:
        return set(children(self.pid))

    def says(self, what: str, times: int = 1) -> bool:
        return self.log.read_text().count(what) >= times


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """One that lets nobody go before ``release()``."""
    with Receiver(Answer(hold=True)) as receiver:
        yield receiver


@pytest.fixture
def busy(
    db: Connection[Any],
    db_url: str,
    environ: Any,
    tmp_path: Path,
    endpoint_keyring: Keyring,
    receiver: Receiver,
) -> Iterator[tuple[Workers, set[int]]]:
    """Two workers and their process ids, each with two requests open and more to do."""
    subscribe(db, endpoint_keyring, receiver.url)
    with ExitStack() as stack:
        workers = stack.enter_context(
            Workers(environ(db_url, lease_seconds=2), tmp_path / "workers.log")
        )
        eventually(lambda: workers.says("worker.started", PROCESSES))
        publish(db, "a.b", OPEN + 2)
        receiver.wait_for(OPEN)
        pids = workers.pids
        assert len(pids) == PROCESSES
        yield workers, pids
        workers.send(signal.SIGKILL)
        eventually(lambda: not any(map(is_alive, pids | workers.pids)))


def states(db: Connection[Any]) -> dict[str, int]:
    return dict(
        db.execute("SELECT current_state, count(*) FROM webhook_deliveries GROUP BY 1").fetchall()
    )


def count_expiries(db: Connection[Any]) -> int:
    row = db.execute(
        "SELECT count(*) FROM webhook_delivery_attempts WHERE state = 'LEASE_EXPIRED'"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_one_that_is_killed_is_started_again_and_its_work_is_taken_over(
    db: Connection[Any], receiver: Receiver, busy: tuple[Workers, set[int]]
) -> None:
    workers, pids = busy
    killed, kept = sorted(pids)
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: workers.says("was killed by SIGKILL; starting it again in 1 s"))
    receiver.release()
    eventually(lambda: states(db) == {"DELIVERED": OPEN + 2})
    eventually(lambda: workers.says("worker.started", PROCESSES + 1))
    assert kept in workers.pids, "its neighbour was left alone"
    assert len(workers.pids) == PROCESSES
    assert count_expiries(db) == FIRST_SHARE
    check(db, receiver.requests)
    workers.send(signal.SIGTERM)
    assert workers.wait() == 0


def test_sigterm_lets_every_process_finish_what_it_has_sent(
    db: Connection[Any], receiver: Receiver, busy: tuple[Workers, set[int]]
) -> None:
    workers, pids = busy
    workers.send(signal.SIGTERM)
    eventually(lambda: workers.says("worker.draining", PROCESSES))
    assert all(map(is_alive, pids))
    receiver.release()
    assert workers.wait() == 0
    assert not any(map(is_alive, pids))
    assert states(db) == {"DELIVERED": OPEN, "ENCRYPTED": 2}
    assert len(receiver.requests) == OPEN
    assert count_expiries(db) == 0
    check(db, receiver.requests)


def test_when_the_command_itself_is_killed_its_workers_drain_and_end(
    db: Connection[Any], receiver: Receiver, busy: tuple[Workers, set[int]]
) -> None:
    workers, pids = busy
    workers.send(signal.SIGKILL)
    eventually(lambda: workers.says("worker.draining", PROCESSES))
    assert all(map(is_alive, pids))
    receiver.release()
    eventually(lambda: not any(map(is_alive, pids)))
    assert states(db) == {"DELIVERED": OPEN, "ENCRYPTED": 2}
    assert count_expiries(db) == 0
    check(db, receiver.requests)
