"""The claim step: lease what is due and can start now, and start it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from psycopg import Connection

from fencepost.store.leases import FIRST, Claimed, attempt_many, claim_due
from fencepost.store.settlements import Settlement
from worker import hooks, metrics
from worker.attempt import Sender, unsent
from worker.link import Link
from worker.prepare import Prepared, Preparer, set_aside_draining
from worker.roster import Roster

IDLE_SECONDS = 0.25
"""Between looks when nothing was due; the fan-out of this process wakes it earlier."""

FULL_SECONDS = 0.5
"""Between looks when no slot is free; a slot that comes free wakes it earlier."""

LARGEST_BATCH = 200


class Claim:
    """Claim, prepare, record the attempts, send.

    Args:
        link: its connection.
        worker_id: unique to this process.
        lease: how long leases last.
        roster: what this process holds.
        preparer: opens payloads and endpoints.
        sender: lets requests leave.
        settle: takes the leases that end unsent.
        may_claim: False while heartbeats are late: what is claimed then might not be kept.
        is_stopping: true once the worker was told to stop.
        patience: how long a request can take, and then some, in seconds.
        clock: seconds that only rise.
        chance: who gets the odd slot, live ones or replays.
    """

    def __init__(
        self,
        link: Link,
        *,
        worker_id: str,
        lease: timedelta,
        roster: Roster,
        preparer: Preparer,
        sender: Sender,
        settle: Callable[[Settlement], None],
        may_claim: Callable[[], bool],
        is_stopping: Callable[[], bool],
        patience: float,
        clock: Callable[[], float],
        chance: random.Random,
    ) -> None:
        self._link = link
        self._worker_id = worker_id
        self._lease = lease
        self._roster = roster
        self._preparer = preparer
        self._sender = sender
        self._settle = settle
        self._may_claim = may_claim
        self._is_stopping = is_stopping
        self._patience = patience
        self._clock = clock
        self._chance = chance
        self._cursor = FIRST
        self._pass_is_idle = True
        self._unsure: list[Prepared] = []

    def __call__(self) -> float:
        """Start one batch; again at once while there is more that could be started."""
        if self._unsure:
            with self._link.use() as conn:
                self._send(conn)
        if not self._may_claim():
            return FULL_SECONDS
        room = self._roster.room(LARGEST_BATCH)
        if room.slots == 0:
            return FULL_SECONDS
        if self._cursor == FIRST:
            self._pass_is_idle = True
        with self._link.use() as conn:
            found = claim_due(
                conn,
                worker_id=self._worker_id,
                lease=self._lease,
                room=room,
                cursor=self._cursor,
                turn=self._chance.randrange(5),
            )
            self._cursor = found.cursor
            if not found.claimed:
                # Only a whole pass that found nothing says that there is nothing.
                is_over = found.cursor == FIRST and self._pass_is_idle
                return IDLE_SECONDS if is_over else 0
            self._pass_is_idle = False
            self._roster.take(found.claimed, now=found.now, until=self._clock() + self._patience)
            try:
                self._start(conn, found.claimed)
            except BaseException:
                # What has not left by now stays unsent: its lease runs out and is taken back.
                kept = {one.claimed.lease for one in self._unsure}
                self._roster.drop_unsent(
                    claimed.lease for claimed in found.claimed if claimed.lease not in kept
                )
                raise
        return 0

    def _start(self, conn: Connection[Any], claims: Sequence[Claimed]) -> None:
        hooks.reach("claimed", claims)
        if self._is_stopping():
            self._end(set_aside_draining(claims))
            return
        ready, set_aside = self._preparer.prepare(conn, claims)
        self._end(set_aside)
        if not ready:
            return
        self._unsure = ready
        self._send(conn)

    def _send(self, conn: Connection[Any]) -> None:
        """Record the attempts, and let their requests leave.

        When the database goes away here, nobody knows what it has recorded: the batch is
        kept, and this is called again.
        """
        ready = self._unsure
        attempted = attempt_many(
            conn,
            [
                (
                    one.claimed.lease,
                    one.endpoint.sealed.endpoint_masked,
                    one.endpoint.sealed.config_version,
                )
                for one in ready
            ],
            worker_id=self._worker_id,
            lease=self._lease,
        )
        self._unsure = []
        hooks.reach("attempted", attempted)
        for one in ready:
            row = attempted.get(one.claimed.lease.delivery_id)
            if row is None:
                metrics.FENCED_OUT.inc()
                self._roster.drop([one.claimed.lease])  # lost meanwhile: refused and noted
            elif row.is_repeat:
                self._end([unsent(one)])
            else:
                self._roster.mark_sent(one.claimed.lease)
                self._sender.send(one, row)

    def _end(self, settlements: list[Settlement]) -> None:
        for settlement in settlements:
            self._roster.hand_over(settlement.lease)
            self._settle(settlement)
