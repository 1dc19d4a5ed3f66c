"""Workers on two hosts and one PostgreSQL: together they keep limits, and a cut one is fenced out.

``TEST_CUT_SECONDS=20`` leaves the cable cut for longer than connections live.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from factories import publish, subscribe
from fencepost.embedded import Embedded
from fencepost.keyring import Keyring
from fencepost.store.migrate import migrate
from invariants import check
from network import Cable, Host
from programs import Program, wait_for_workers
from receiver import Answer, Received, Receiver
from waiting import eventually

CUT_SECONDS = float(os.environ.get("TEST_CUT_SECONDS", "0"))
LEASE_SECONDS = 2

DATABASE_ADDRESS, RECEIVER_ADDRESS = "198.18.0.1", "198.19.0.1"  # the networks of benchmarks
NAMES = ("a", "b")

RATE, WINDOW = 20, 5.0
MOST_OPEN = 4
FIRST_SHARE = 2
"""Requests that a worker opens to a subscription before its first success."""


class Script:
    """Lets the first attempts at ``/held`` wait for the gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def __call__(self, received: Received) -> Answer:
        if received.target == "/held" and received.header("fencepost-attempt") == "1":
            self.gate.wait()
        return Answer(200, delay=0.05 if received.target == "/open" else 0)


@dataclass(frozen=True)
class TwoHosts:
    """A worker on each, a receiver between them."""

    db: Connection[Any]
    receiver: Receiver
    script: Script
    workers: dict[str, Program]
    to_database: dict[str, Cable]

    def seen(self, target: str) -> list[Received]:
        return [got for got in list(self.receiver.requests) if got.target == target]

    def rows(self, query: str, *params: object) -> list[tuple[Any, ...]]:
        return self.db.execute(query.encode(), params).fetchall()

    def senders(self, event_type: str) -> dict[str, int]:
        """Give how many requests each worker has sent for events of a type."""
        return dict(
            self.rows(
                "SELECT split_part(a.worker_id, '-', 1), count(*)"
                "  FROM webhook_delivery_attempts a JOIN webhook_deliveries d ON d.id = delivery_id"
                " WHERE a.state = 'ATTEMPTED' AND d.event_type = %s GROUP BY 1",
                event_type,
            )
        )

    def is_done(self) -> bool:
        return self.rows(
            "SELECT count(*) FROM webhook_deliveries WHERE current_state <> 'DELIVERED'"
        ) == [(0,)] and not self.rows("SELECT FROM webhook_outbox")


@pytest.fixture
def two(environ: Any, endpoint_keyring: Keyring, tmp_path: Path) -> Iterator[TwoHosts]:
    """Two hosts, each with one cable to the database and one to the world."""
    with ExitStack() as stack:
        enter = stack.enter_context
        centre, hosts = enter(Host()), {name: enter(Host()) for name in NAMES}
        for address in (DATABASE_ADDRESS, RECEIVER_ADDRESS):
            centre.ip("address", "add", f"{address}/32", "dev", "lo")
        to_database = {}
        for number, (name, host) in enumerate(hosts.items(), 1):
            to_database[name] = Cable(
                centre, host, name=f"db-{name}", to=DATABASE_ADDRESS, net=f"198.18.{number}"
            )
            Cable(centre, host, name=f"net-{name}", to=RECEIVER_ADDRESS, net=f"198.19.{number}")
        with centre.inside():
            parameters = {"fsync": "off", "listen_addresses": DATABASE_ADDRESS}
            server = enter(Embedded(tmp_path / "server", configuration=parameters))
            script = Script()
            receiver = enter(Receiver(script, address=RECEIVER_ADDRESS))
            migrate(server.url())
            db = enter(psycopg.connect(server.superuser_url(), autocommit=True))
            url = f"postgresql://fencepost@{DATABASE_ADDRESS}/fencepost"
            admit(db, url)
        for name, limit in {
            "rate": {"rate_limit_per_second": RATE},
            "open": {"max_in_flight": MOST_OPEN},
            "held": {},
        }.items():
            target = f"{receiver.url}/{name}"
            subscribe(db, endpoint_keyring, target, event_type_patterns=[f"{name}.%"], **limit)
        chosen = environ(url, lease_seconds=LEASE_SECONDS, allow_networks="198.19.0.0/16")
        workers = {}
        for name, host in hosts.items():
            with host.inside():
                workers[name] = enter(Program(chosen, tmp_path / f"{name}.log", name=name))
        wait_for_workers(db, len(hosts))
        yield TwoHosts(db, receiver, script, workers, to_database)
        script.gate.set()


def admit(db: Connection[Any], url: str) -> None:
    """Let the server take connections from the hosts; wait until it does."""
    row = db.execute("SHOW hba_file").fetchone()
    assert row is not None
    with Path(row[0]).open("a") as rules:
        rules.write("host all all 198.18.0.0/16 trust\n")
    db.execute("SELECT pg_reload_conf()")

    def is_let_in() -> bool:
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    eventually(is_let_in)


def test_together_they_keep_limits_and_one_that_is_cut_off_is_fenced_out(
    two: TwoHosts, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(two.db, "open.x", 200)
    publish(two.db, "rate.x", int(RATE * (WINDOW + 1)))
    eventually(two.is_done)
    assert two.senders("open.x").keys() == set(NAMES)
    assert two.senders("rate.x").keys() == set(NAMES)
    starts = [got.at for got in two.seen("/rate")]
    windows = [
        bisect_left(starts, begin + WINDOW) - place
        for place, begin in enumerate(starts)
        if begin <= starts[-1] - WINDOW
    ]
    assert max(windows) <= RATE * WINDOW + RATE / 2 + 1, "half a second's worth may be saved up"
    assert min(windows) >= 0.9 * RATE * WINDOW

    publish(two.db, "held.x", 3 * FIRST_SHARE)
    eventually(lambda: two.senders("held.x") == dict.fromkeys(NAMES, FIRST_SHARE))
    eventually(lambda: len(two.seen("/held")) == FIRST_SHARE * len(NAMES))
    two.to_database["a"].cut()
    two.script.gate.set()  # both are answered; only one of them can say so
    eventually(two.is_done)
    threading.Event().wait(CUT_SECONDS)  # what is tried: time without a database
    taken_over = two.rows(
        "SELECT delivery_id FROM webhook_delivery_attempts"
        " WHERE state = 'LEASE_EXPIRED' AND worker_id LIKE 'a-%%' ORDER BY 1"
    )
    assert len(taken_over) == FIRST_SHARE
    assert not two.rows("SELECT FROM webhook_fenced_writes")

    two.to_database["a"].mend()
    fenced = "SELECT delivery_id FROM webhook_fenced_writes WHERE worker_id LIKE 'a-%%' ORDER BY 1"
    eventually(lambda: two.rows(fenced) == taken_over, within=60)
    before = two.senders("open.x")["a"]

    def works_again() -> bool:
        if two.is_done():
            publish(two.db, "open.x", 40)
        return two.senders("open.x")["a"] > before

    eventually(works_again)
    eventually(two.is_done)
    assert max(got.crowd for got in two.seen("/open")) == MOST_OPEN
    assert all(worker.is_running for worker in two.workers.values())
    assert len(two.seen("/held")) == 4 * FIRST_SHARE, "what was taken over came twice, no more"
    check(two.db, two.receiver.requests)
    with capsys.disabled():
        print(
            f"\ntwo hosts sent {two.senders('open.x')} and {two.senders('rate.x')};"
            f" {min(windows)} to {max(windows)} in any {WINDOW:g} s at {RATE}/s,"
            f" {MOST_OPEN} of {MOST_OPEN} open; {len(taken_over)} taken over and fenced out"
        )
