"""From a producer's commit to the receiver, by every library that a producer may use."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import psycopg
import pytest

from doors import DOORS, Door
from fencepost.publish import _producer_of_this_process
from installation import Fencepost
from waiting import eventually


@pytest.fixture
def database_url(fencepost: Fencepost, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database with a table of the producer's own; this process's settings point at it."""
    for name, value in fencepost.environ.items():
        monkeypatch.setenv(name, value)
    url = fencepost.environ["FENCEPOST_DATABASE_URL"]
    with psycopg.connect(url) as conn:
        conn.execute("CREATE TABLE orders (id text PRIMARY KEY)")
    _producer_of_this_process.cache_clear()
    yield url
    _producer_of_this_process.cache_clear()


def test_what_is_committed_arrives_and_what_is_rolled_back_does_not(
    fencepost: Fencepost, database_url: str
) -> None:
    receiver = fencepost.start_receiver("receiver", "200")
    fencepost.run("subscription", "add", "orders", receiver.url)
    fencepost.start_worker("a")
    # In a thread of its own: some run an event loop, and so does the browser of other tests.
    with ThreadPoolExecutor(max_workers=1) as pool:
        committed = {
            str(pool.submit(order, door, database_url, name).result()): name
            for name, door in DOORS.items()
        }
        for name, door in DOORS.items():
            given_up = pool.submit(order, door, database_url, f"{name}, given up", gives_up=True)
            assert isinstance(given_up.exception(), InterruptedError)
    eventually(lambda: len(receiver.requests) >= len(DOORS))
    eventually(fencepost.is_settled)
    arrived = {got.header("webhook-id"): got.body.decode() for got in receiver.requests}
    assert arrived == {id_: f'{{"order":"{name}"}}' for id_, name in committed.items()}
    assert len(receiver.requests) == len(DOORS)
    orders = fencepost.rows("SELECT id FROM orders ORDER BY id")
    assert [name for (name,) in orders] == sorted(DOORS)
    states = fencepost.rows("SELECT current_state, count(*) FROM webhook_deliveries GROUP BY 1")
    assert states == [("DELIVERED", len(DOORS))]


def order(door: Door, url: str, name: str, *, gives_up: bool = False) -> UUID:
    """Change something of one's own and tell the world of it, in one transaction."""
    with door(url) as transaction:
        transaction.execute(f"INSERT INTO orders VALUES ('{name}')")
        event_id = transaction.publish("order.placed", f'{{"order":"{name}"}}'.encode())
        if gives_up:
            raise InterruptedError
    return event_id
