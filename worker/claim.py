"""The claim step: lease what is due and can start now, and start it."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import Connection

from fencepost.store.leases import FIRST, Claimed, Claims, attempt_many, claim_due
from fencepost.store.settlements import Settlement
from worker import hooks, metrics
from worker.attempt import Sender, unsent
from worker.link import OUTLIVED, Link
from worker.prepare import Prepared, Preparer, set_aside_draining, set_aside_unsupported
from worker.roster import Roster

LOOK_SECONDS, LONGEST_IDLE_SECONDS = 0.25, 2.0
"""After a pass that found nothing, for each of its looks: thousands of sleeping subscriptions
take several, and an idle worker leaves the database alone. What this process fans out, and what
becomes due, is looked at earlier."""

FULL_SECONDS = 0.5
"""Between looks when no slot is free; a slot that comes free wakes it earlier."""

SOONEST_SECONDS = 0.02
"""Between looks at what becomes due, or a rate limit's next token: several are taken together."""

LARGEST_BATCH = 400

VISITS, IDLE_VISITS = 200, 1000
"""Subscriptions to look at with one statement; more of them while there is nothing to do."""


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
        may_claim: False while heartbeats are late or outcomes cannot be written: what is
            claimed then might not be kept, or be sent in vain.
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
        self._looks = 0
        self._due_at = math.inf
        self._taken: Sequence[Claimed] = ()
        self._until = 0.0
        self._unsure: list[Prepared] = []
        self.is_finished = threading.Event()
        """Set by ``finish`` once nothing is left."""

    def __call__(self) -> float:
        """Start one batch; again at once while there is more that could be started."""
        if not self.is_done:
            with self._link.use() as conn:
                self._go_on(conn)
        if not self._may_claim():
            return FULL_SECONDS
        room = self._roster.room(LARGEST_BATCH)
        if room.slots == 0:
            return FULL_SECONDS
        if self._cursor == FIRST:
            self._looks, self._pass_is_idle, self._due_at = 0, True, math.inf
        is_searching = self._looks > 0 and self._pass_is_idle
        with self._link.use() as conn:
            found = claim_due(
                conn,
                worker_id=self._worker_id,
                lease=self._lease,
                room=room,
                cursor=self._cursor,
                visits=IDLE_VISITS if is_searching else VISITS,
                turn=self._chance.randrange(5),
            )
            self._cursor = found.cursor
            self._looks += 1
            if found.due_in is not None:
                self._due_at = min(self._due_at, self._clock() + found.due_in)
            if not found.claimed:
                # Only a whole pass that found nothing says that there is nothing.
                is_over = found.cursor == FIRST and self._pass_is_idle
                self._roster.take(found, until=0)
                idle = min(LONGEST_IDLE_SECONDS, self._looks * LOOK_SECONDS)
                return self._rest(found, idle if is_over else 0)
            self._pass_is_idle = False
            self._take(found)
            self._go_on(conn)
        return self._rest(found, 0)

    def _rest(self, found: Claims, otherwise: float) -> float:
        """Say when to look again: when a rate limit's next token is there, or something due."""
        wait = otherwise
        if found.ready_in is not None and found.cursor == FIRST:
            wait = min(LONGEST_IDLE_SECONDS, max(SOONEST_SECONDS, found.ready_in))
        if wait > 0:
            wait = min(wait, max(SOONEST_SECONDS, self._due_at - self._clock()))
        return wait

    def finish(self) -> float:
        """Claim nothing more; bring what is in hand to its end, and then set ``is_finished``."""
        if not self.is_done:
            with self._link.use() as conn:
                self._go_on(conn)
        self.is_finished.set()
        return FULL_SECONDS

    @property
    def is_done(self) -> bool:
        """Whether nothing that it claimed still waits to be prepared or sent."""
        return not (self._taken or self._unsure)

    def _take(self, found: Claims) -> None:
        self._until = self._clock() + self._patience
        self._roster.take(found, until=self._until)
        self._taken = found.claimed
        hooks.reach("claimed", found.claimed)

    def _go_on(self, conn: Connection[Any]) -> None:
        """Bring what is in hand on its way, from where the database went away last time."""
        if self._taken:
            self._prepare(conn)
        if self._unsure:
            self._send(conn)

    def _prepare(self, conn: Connection[Any]) -> None:
        claims = self._taken
        if self._is_stopping():
            self._taken = ()
            self._end(set_aside_draining(claims))
            return
        try:
            ready, set_aside = self._preparer.prepare(conn, claims)
        except (psycopg.OperationalError, *OUTLIVED):
            # The server is away or slow, or the connection is too old: kept and tried again, as
            # long as the leases last.
            if self._clock() > self._until:
                self._taken = ()
                self._roster.drop(claimed.lease for claimed in claims)
            raise
        except Exception:
            # Left to run out, leases would make suspects of deliveries that did nothing.
            self._taken = ()
            self._end(set_aside_unsupported(claims))
            raise
        self._taken, self._unsure = (), ready
        self._end(set_aside)

    def _send(self, conn: Connection[Any]) -> None:
        """Record the attempts, and let their requests leave.

        When the database goes away here, nobody knows what it has recorded: the batch is
        kept, and this is called again.
        """
        ready, began = self._unsure, self._clock()
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
        hooks.reach("attempted", attempted)
        self._unsure = []
        now = self._clock()
        # Stopped since then for as long as a lease lasts: another may be sending them by now.
        is_late = now - began >= self._lease.total_seconds()
        for one in ready:
            row = attempted.get(one.claimed.lease.delivery_id)
            if row is None:
                metrics.FENCED_OUT.inc()
                self._roster.drop([one.claimed.lease])  # lost meanwhile: refused and noted
            elif row.is_repeat:
                self._end([unsent(one, "the database went away")])
            elif is_late:
                self._end([unsent(one, "the lease ran out")])
            else:
                self._roster.extend(one.claimed.lease, until=now + self._patience)
                self._sender.send(one, row)

    def _end(self, settlements: Iterable[Settlement]) -> None:
        for settlement in settlements:
            self._roster.hand_over(settlement.lease)
            self._settle(settlement)
