"""A worker's moves, played by hand on a real database, for tests of what people look at."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_network
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Connection

import factories
from fencepost.keyring import Keyring
from fencepost.model import ErrorClass, Lease, Subscription
from fencepost.passwords import hash_password
from fencepost.states import Cause, State
from fencepost.store import (
    logins,
    operators,
    people,
    replay_outcomes,
    requeue,
    subscriptions,
    tokens,
)
from fencepost.store.leases import Room, attempt_many, claim_due, reap_expired
from fencepost.store.settlements import Settlement, settle_many
from fencepost.subscription_spec import read_spec

PASSWORD = "correct horse battery staple"
_PASSWORD_HASH = hash_password(PASSWORD)
LOOPBACK = ip_network("127.0.0.0/8")
_LEASE = timedelta(seconds=30)
_OUTCOMES = {200: Cause.SUCCEED, 503: Cause.RETRY, 404: Cause.REJECT}


class Stage:
    """A database with people, subscriptions and deliveries; everything is committed at once.

    Args:
        url: of its superuser.
        endpoint_keyring: that of the dashboard under test.
        keyring: likewise, of its payloads; without it nobody can open them.
    """

    def __init__(self, url: str, endpoint_keyring: Keyring, keyring: Keyring | None = None) -> None:
        self.conn: Connection[Any] = psycopg.connect(url, autocommit=True)
        self.url = url
        self._endpoint_keyring = endpoint_keyring
        self._keyring = keyring

    def close(self) -> None:
        """Give the connection back."""
        self.conn.close()

    def user(self, name: str = "dana", role: str = "operator") -> str:
        """Add a user with the password ``PASSWORD``; give the session's cookie."""
        with self.conn.transaction():
            added = people.add_user(
                self.conn, name, password_hash=_PASSWORD_HASH, role=role, actor="test"
            )
            return logins.open_session(self.conn, added.id)

    def link(self, name: str = "root", role: str = "admin") -> str:
        """Make a link for one login."""
        with self.conn.transaction():
            added = people.add_user(
                self.conn, name, password_hash=_PASSWORD_HASH, role=role, actor="test"
            )
            return logins.make_login_link(self.conn, added.id)

    def token(self, role: str = "viewer") -> str:
        """Make an API token."""
        with self.conn.transaction():
            return tokens.create_token(self.conn, f"ci {role}", role=role, actor="test")[1]

    def subscription(self, name: str = "orders", **fields: Any) -> Subscription:
        """Add a real subscription."""
        spec = read_spec(
            {"name": name, "url": "https://hooks.example.test/in", **fields},
            allow_http=True,
            allow_networks=[LOOPBACK],
        )
        with self.conn.transaction():
            return subscriptions.add_subscription(
                self.conn, self._endpoint_keyring, spec, actor="test"
            )[0]

    def deliveries(self, subscription_id: UUID, count: int = 1, **more: Any) -> list[UUID]:
        """Add deliveries that wait for a worker, each of an event with a sealed payload."""
        ids = factories.make_deliveries(self.conn, subscription_id, count, **more)
        self.conn.execute(
            """
            WITH made AS (
                INSERT INTO webhook_events (id, event_type, content_type, payload_bytes, node,
                                            sealed_by)
                SELECT event_id, event_type, 'application/json', 2, 'web-1', 'fan-out'
                  FROM webhook_deliveries WHERE id = ANY(%(ids)s)
                ON CONFLICT DO NOTHING
                RETURNING id)
            INSERT INTO webhook_payloads (event_id, key_id, sealed) SELECT id, 'k', '' FROM made
            """,
            {"ids": ids},
        )
        return ids

    def give_payload(self, delivery_id: UUID, payload: bytes) -> None:
        """Give a delivery's event a payload that can be opened."""
        assert self._keyring is not None
        row = self.conn.execute(
            "SELECT e.id, e.event_type, e.content_type FROM webhook_events e"
            " JOIN webhook_deliveries d ON d.event_id = e.id WHERE d.id = %s",
            (delivery_id,),
        ).fetchone()
        assert row is not None
        key_id, sealed = self._keyring.seal_payload(
            payload, event_id=row[0], event_type=row[1], content_type=row[2]
        )
        self.conn.execute(
            "WITH e AS (UPDATE webhook_events SET payload_bytes = %(size)s WHERE id = %(event)s)"
            " UPDATE webhook_payloads SET key_id = %(key)s, sealed = %(sealed)s"
            " WHERE event_id = %(event)s",
            {"event": row[0], "key": key_id, "sealed": sealed, "size": len(payload)},
        )

    def claim(self, delivery_id: UUID, worker: str = "worker-a") -> Lease:
        """Claim one delivery, and nothing else."""
        self.conn.execute(
            "UPDATE webhook_deliveries SET next_attempt_at = fencepost_now() - interval '1 s'"
            " WHERE id = %s",
            (delivery_id,),
        )
        (lease,) = self._claim([delivery_id], worker)
        return lease

    def _claim(self, ids: list[UUID], worker: str) -> list[Lease]:
        others = "SELECT id FROM webhook_deliveries WHERE id <> ALL(%s) FOR UPDATE"
        with psycopg.connect(self.url) as blocker:  # what is locked is passed over
            blocker.execute(others, (ids,))
            room = Room(slots=5 * len(ids), share=5 * len(ids))  # of which replays get a fifth
            claims = claim_due(self.conn, worker_id=worker, lease=_LEASE, room=room).claimed
        assert len(claims) == len(ids)
        return [claimed.lease for claimed in claims]

    def attempt(self, lease: Lease) -> None:
        """Record that its request leaves."""
        attempt_many(
            self.conn,
            [(lease, "https://hooks.example.test/in", 1)],
            worker_id=lease.worker_id,
            lease=_LEASE,
        )

    def settle(self, lease: Lease, status: int, *, delay: float = 15) -> bool:
        """Record an outcome; False when fencing refused it."""
        cause = _OUTCOMES[status]
        (row,) = settle_many(
            self.conn,
            [
                Settlement(
                    lease,
                    State.ATTEMPTED,
                    cause,
                    status=status,
                    latency_ms=105,
                    delay=timedelta(seconds=delay) if cause is Cause.RETRY else None,
                    error=_error(status),
                    reason="not_retryable" if cause is Cause.REJECT else None,
                )
            ],
            worker_id=lease.worker_id,
        )
        return row.settled

    def send(self, delivery_id: UUID, status: int, worker: str = "worker-a") -> None:
        """Go through one whole attempt."""
        lease = self.claim(delivery_id, worker)
        self.attempt(lease)
        self.settle(lease, status)

    def expire(self, delivery_id: UUID, reaper: str = "worker-b") -> None:
        """Let the lease run out and a reaper find it."""
        self.conn.execute(
            "UPDATE webhook_deliveries SET lease_expires_at = fencepost_now() - interval '1 s'"
            " WHERE id = %s",
            (delivery_id,),
        )
        reap_expired(self.conn, worker_id=reaper)

    def dead(self, subscription_id: UUID, count: int) -> list[UUID]:
        """Add dead letters, each with one refused attempt, all in one go."""
        ids = self.deliveries(subscription_id, count)
        leases = self._claim(ids, "worker-a")
        with self.conn.transaction():
            attempt_many(
                self.conn,
                [(lease, "https://hooks.example.test/in", 1) for lease in leases],
                worker_id="worker-a",
                lease=_LEASE,
            )
            settle_many(
                self.conn,
                [
                    Settlement(
                        lease, State.ATTEMPTED, Cause.REJECT, status=404, latency_ms=9,
                        error=ErrorClass.HTTP_4XX, reason="not_retryable",
                    )
                    for lease in leases
                ],
                worker_id="worker-a",
            )  # fmt: skip
        return ids

    def send_again(self, delivery_id: UUID) -> None:
        """Replay one, as an operator does."""
        with self.conn.transaction():
            operators.replay_delivery(self.conn, delivery_id, actor="test")

    def discard(self, delivery_id: UUID) -> None:
        """Give one up, as an operator does."""
        with self.conn.transaction():
            operators.discard_delivery(self.conn, delivery_id, actor="test")

    def requeue(self) -> None:
        """Do the work of all running replays; of those with a rate, one second's."""
        with self.conn.transaction():
            while (found := requeue.take_due(self.conn)) is not None:
                requeue.requeue_batch(self.conn, found, requeue.batch_size(found))

    def count_outcomes(self) -> None:
        """Add up what came of requeued deliveries, as a worker does; what fails is paused."""
        with self.conn.transaction():
            replay_outcomes.fold_outcomes(self.conn)
            replay_outcomes.pause_failing(self.conn, worker_id="worker-a")

    def beat(self, worker: str = "worker-a") -> None:
        """Let a worker report itself."""
        self.conn.execute(
            "INSERT INTO webhook_workers (worker_id, node, version, transport, concurrency)"
            " VALUES (%s, 'node', '1', 'requests', 64)"
            " ON CONFLICT (worker_id) DO UPDATE SET beat_at = fencepost_now()",
            (worker,),
        )

    def value(self, query: str, *params: object) -> Any:
        """Read one value."""
        row = self.conn.execute(query, params).fetchone()
        return None if row is None else row[0]


def _error(status: int) -> ErrorClass | None:
    return {503: ErrorClass.HTTP_5XX, 404: ErrorClass.HTTP_4XX}.get(status)
