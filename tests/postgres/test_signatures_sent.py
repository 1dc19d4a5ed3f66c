"""What a worker really sends is accepted by a receiver's verify, whichever secret it holds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from factories import subscribe
from fencepost.keyring import Keyring
from fencepost.receiver import NoMatchError, TooOldError, verify
from fencepost.signing import SCHEMES
from fencepost.store.secrets import revoke_secret, rotate_secret
from receiver import Received, Receiver
from verifying import VERIFIERS
from worker.build import Worker
from workers import WorkerThread

pytestmark = pytest.mark.postgres

BODIES = (b'{"b":1,  "a":1.10}\n', '"é"'.encode(), b"", bytes(range(256)))


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_is_accepted_throughout_a_double_rotation(
    db: Connection[Any], db_url: str, settings: Any, endpoint_keyring: Keyring, scheme: Any
) -> None:
    sent = 0

    def send(receiver: Receiver) -> list[Received]:
        nonlocal sent
        for body in BODIES:
            db.execute("SELECT webhook_publish('invoice.paid', %s, 'text/plain')", (body,))
        sent += len(BODIES)
        return receiver.wait_for(sent)[-len(BODIES) :]

    def rotate(overlap: timedelta) -> str:
        with db.transaction():
            return rotate_secret(db, endpoint_keyring, id_, overlap=overlap, actor="dana")[1]

    with Receiver() as receiver, WorkerThread(Worker(settings(db_url))):
        id_, first = subscribe(db, endpoint_keyring, receiver.url, signature_scheme=scheme)
        with_one = send(receiver)
        second = rotate(timedelta(hours=1))
        third = rotate(timedelta(hours=1))
        with_three = send(receiver)
        with db.transaction():
            revoke_secret(db, id_, actor="dana")
        with_last = send(receiver)

    for requests, good, bad in (
        (with_one, [first], [second, third]),
        (with_three, [first, second, third], []),
        (with_last, [third], [first, second]),
    ):
        assert sorted(got.body for got in requests) == sorted(BODIES)
        for got in requests:
            verify(got.body, got.headers, [first, third], scheme=scheme)  # by the clock
            for secret in good:
                VERIFIERS[scheme](got, secret)
            if bad:
                with pytest.raises(NoMatchError):
                    verify(got.body, got.headers, bad, scheme=scheme)
            with pytest.raises(TooOldError):
                verify(got.body, got.headers, good, scheme=scheme, now=got.at + 306)
