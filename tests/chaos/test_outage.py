"""The database goes away under load and comes back: nothing is lost, nobody restarts."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest

from factories import subscribe
from fencepost.embedded import Embedded
from fencepost.keyring import Keyring
from fencepost.store.migrate import migrate
from invariants import check
from programs import Program
from receiver import Answer, Receiver
from waiting import eventually

OUTAGE_SECONDS = float(os.environ.get("TEST_OUTAGE_SECONDS", "10"))


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[Embedded]:
    """A server of its own, with fsync on."""
    with Embedded(tmp_path / "durable") as server:
        migrate(server.url())
        yield server


class Producer:
    """Publishes until it is stopped; remembers what it was told is committed."""

    def __init__(self, url: str) -> None:
        self.acknowledged: list[str] = []
        self.unsure: list[str] = []
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(0.01):
            try:
                with psycopg.connect(self._url, autocommit=True) as conn:
                    while not self._stop.wait(0.01):
                        row = conn.execute("SELECT webhook_publish('a.b', '{}')").fetchone()
                        assert row is not None
                        self.acknowledged.append(str(row[0]))
            except psycopg.OperationalError:
                continue

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def __exit__(self, *_: object) -> None:
        self.stop()


def postmaster(server: Embedded) -> int:
    """Give the server's process id."""
    with psycopg.connect(server.superuser_url()) as conn:
        row = conn.execute("SHOW data_directory").fetchone()
    assert row is not None
    return int((Path(row[0]) / "postmaster.pid").read_text().split()[0])


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("mode", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_postgresql_stopped_under_load(
    durable: Embedded,
    environ: Any,
    endpoint_keyring: Keyring,
    tmp_path: Path,
    mode: signal.Signals,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = durable.url()
    settings = environ(url, lease_seconds=5)
    with Receiver(Answer(200, delay=0.02)) as receiver:
        with psycopg.connect(durable.superuser_url(), autocommit=True) as conn:
            subscribe(conn, endpoint_keyring, receiver.url)
        with (
            Program(settings, tmp_path / "a.log", name="a") as a,
            Program(settings, tmp_path / "b.log", name="b") as b,
            Producer(url) as producer,
        ):
            receiver.wait_for(200, timeout=60)
            pid = postmaster(durable)
            os.kill(pid, mode)
            eventually(lambda: has_ended(pid))
            threading.Event().wait(OUTAGE_SECONDS)  # what is tried: time without a database
            durable.start()
            before = len(producer.acknowledged)
            eventually(lambda: len(producer.acknowledged) > before + 200, within=60)
            producer.stop()
            with psycopg.connect(durable.superuser_url(), autocommit=True) as conn:

                def is_done() -> bool:
                    row = conn.execute(
                        "SELECT NOT EXISTS (SELECT FROM webhook_outbox) AND NOT EXISTS (SELECT"
                        " FROM webhook_deliveries WHERE current_state <> 'DELIVERED')"
                    ).fetchone()
                    return row == (True,)

                eventually(is_done, within=90)
                delivered = {
                    str(row[0])
                    for row in conn.execute("SELECT event_id FROM webhook_deliveries").fetchall()
                }
                row = conn.execute(
                    "SELECT count(*) FILTER (WHERE state = 'LEASE_EXPIRED'"
                    " AND detail ->> 'from_state' = 'ATTEMPTED'),"
                    " count(*) FILTER (WHERE state = 'FAILED') FROM webhook_delivery_attempts"
                ).fetchone()
                check(conn, receiver.requests)
            assert row is not None
            assert a.is_running
            assert b.is_running
    expiries, failures = row
    seen = Counter(got.header("webhook-id") for got in receiver.requests)
    duplicates = sum(count - 1 for count in seen.values())
    with capsys.disabled():
        print(
            f"\n{mode.name}: PostgreSQL away for {OUTAGE_SECONDS:g} s,"
            f" acknowledged {len(producer.acknowledged)}, delivered {len(delivered)},"
            f" duplicates {duplicates}, expiries {expiries}, failures {failures}"
        )
    assert set(producer.acknowledged) <= delivered
    assert set(seen) == delivered
    assert duplicates <= expiries + failures
    assert failures == 0


def test_a_worker_that_starts_before_its_database_waits_for_it(
    durable: Embedded, environ: Any, endpoint_keyring: Keyring, tmp_path: Path
) -> None:
    url, pid = durable.url(), postmaster(durable)
    with Receiver() as receiver:
        with psycopg.connect(durable.superuser_url(), autocommit=True) as conn:
            subscribe(conn, endpoint_keyring, receiver.url)
            conn.execute("SELECT webhook_publish('a.b', '{}')")
        os.kill(pid, signal.SIGINT)
        eventually(lambda: has_ended(pid))
        with Program(environ(url), tmp_path / "a.log", name="a") as a:
            eventually(lambda: "database.away" in a.log.read_text())
            durable.start()
            receiver.wait_for(1, timeout=60)
            assert a.is_running
