"""What this process holds right now, and therefore what it can start."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from fencepost.model import Lease
from fencepost.store.leases import Claimed, Claims, Room
from worker.shares import MOST_REMEMBERED, Shares

WAIT_MEMORY = timedelta(minutes=10)
"""How long it is remembered that a subscription's share was used up: every claim carries it."""

BUSY = 32
"""Requests in flight from which on others' answers are never far: what came of one may wait."""

PRESSED_SECONDS = 60.0
"""How long it is remembered that a limit or an order kept deliveries waiting for an outcome."""


@dataclass(slots=True)
class Held:
    """A delivery in the hands of this process."""

    claimed: Claimed
    until: float
    """When its own deadline has surely passed, on the local clock: no renewal after it."""
    is_lost: bool = False
    """The heartbeat found that the lease is another's."""
    is_settling: bool = False
    """Handed to the settler: it occupies no slot and needs no heartbeat."""


class Roster:
    """The leases of one process, shared by its threads.

    Args:
        concurrency: how many requests may be open at once.
        share: how many of them one subscription may have at most.
        backlog: how many results may wait for the settler before no more is claimed.
        clock: seconds that only rise.
    """

    def __init__(
        self, *, concurrency: int, share: int, backlog: int, clock: Callable[[], float]
    ) -> None:
        self._concurrency = concurrency
        # One receiver that hangs must leave room to the others, however few the slots are.
        most = min(share, concurrency - concurrency // 4)
        self._shares = Shares(most=most, concurrency=concurrency)
        self._backlog = backlog
        self._clock = clock
        self._held: dict[Lease, Held] = {}
        self._running: Counter[UUID] = Counter()  # by subscription, without those settling
        self._in_flight = 0  # all of them
        self._pressed: dict[UUID, float] = {}
        self._waited: dict[UUID, tuple[str, datetime]] = {}
        self._slots_full_at: datetime | None = None
        self._changed = threading.Condition()

    def room(self, at_most: int) -> Room:
        """Say what could be started now; no slots while too many results wait to be written."""
        with self._changed:
            running = self._in_flight
            is_behind = len(self._held) - running > self._backlog
            return Room(
                slots=0 if is_behind else min(at_most, self._concurrency - running),
                share=self._shares.first,
                shares=self._shares.all(self._running),
                held=dict(self._running),
                waited=dict(self._waited),
                slots_full_at=self._slots_full_at,
                may_take_suspect=not any(held.claimed.is_suspect for held in self._held.values()),
            )

    def take(self, found: Claims, *, until: float) -> None:
        """Enter new leases, and what kept others waiting.

        Args:
            found: the claim that has just committed.
            until: local time after which they are not renewed any more.
        """
        with self._changed:
            for one in found.claimed:
                self._held[one.lease] = Held(one, until)
                self._running[one.subscription_id] += 1
            self._in_flight += len(found.claimed)
            self._waited = {
                id_: (reason, at)
                for id_, (reason, at) in self._waited.items()
                if at > found.now - WAIT_MEMORY
            }
            for subscription_id, held in self._running.items():
                if held >= self._shares.of(subscription_id):
                    self._note_wait(subscription_id, "slot", found.now)
            for subscription_id, reason in found.kept_back.items():
                self._note_wait(subscription_id, reason, found.now)
            self._note_pressed(id_ for id_, reason in found.kept_back.items() if reason != "rate")
            if self._in_flight >= self._concurrency:
                self._slots_full_at = found.now

    def learn(self, subscription_id: UUID, *, failed: bool, timed_out: bool) -> None:
        """Let an answer change the subscription's share."""
        with self._changed:
            if failed:
                self._shares.failed(subscription_id, timed_out=timed_out)
            else:
                self._shares.succeeded(subscription_id)

    def hand_over(self, lease: Lease) -> bool:
        """Free the slot of a delivery whose end is decided; tell whether its lease was lost."""
        with self._changed:
            held = self._held[lease]
            if not held.is_settling:
                held.is_settling = True
                self._release(held.claimed.subscription_id)
            return held.is_lost

    def can_wait(self, lease: Lease) -> bool:
        """Tell whether nobody waits for its outcome to be written.

        Others of the same subscription may, where a limit over all workers or its order keeps
        them back; and where little is in flight there is nothing to write it together with.
        """
        with self._changed:
            held = self._held.get(lease)
            is_busy = self._in_flight >= BUSY
            return (
                is_busy and held is not None and held.claimed.subscription_id not in self._pressed
            )

    def drop(self, leases: Iterable[Lease]) -> None:
        """Forget deliveries that are settled."""
        with self._changed:
            for lease in leases:
                held = self._held.pop(lease, None)
                if held is not None and not held.is_settling:
                    self._release(held.claimed.subscription_id)
            self._changed.notify_all()

    def extend(self, lease: Lease, *, until: float) -> None:
        """Renew it until then: a request's deadline runs from its start, not from the claim."""
        with self._changed:
            self._held[lease].until = until

    def lose(self, leases: Iterable[Lease]) -> list[Lease]:
        """Mark leases as lost; give those that were not yet known to be.

        A lease, not a delivery: this process may have claimed the same one again.
        """
        with self._changed:
            lost = [
                held
                for lease in leases
                if (held := self._held.get(lease)) and not held.is_lost and not held.is_settling
            ]
            for held in lost:
                held.is_lost = True
            return [held.claimed.lease for held in lost]

    def to_renew(self) -> list[Lease]:
        """List the leases that a heartbeat keeps: in use, not lost, their deadline ahead."""
        now = self._clock()
        with self._changed:
            return [
                lease
                for lease, held in self._held.items()
                if not held.is_settling and not held.is_lost and held.until > now
            ]

    def subscription_of(self, lease: Lease) -> UUID | None:
        """Say whose delivery it is."""
        with self._changed:
            held = self._held.get(lease)
            return None if held is None else held.claimed.subscription_id

    @property
    def in_flight(self) -> int:
        """How many slots are in use."""
        with self._changed:
            return self._in_flight

    def wait_empty(self, timeout: float) -> bool:
        """Wait until nothing is held; tell whether that came true."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._held, timeout)

    def _note_wait(self, subscription_id: UUID, reason: str, now: datetime) -> None:
        self._waited.pop(subscription_id, None)
        self._waited[subscription_id] = (reason, now)
        if len(self._waited) > MOST_REMEMBERED:
            del self._waited[next(iter(self._waited))]

    def _note_pressed(self, subscription_ids: Iterable[UUID]) -> None:
        now = self._clock()
        self._pressed = {id_: until for id_, until in self._pressed.items() if until > now}
        self._pressed.update((id_, now + PRESSED_SECONDS) for id_ in subscription_ids)

    def _release(self, subscription_id: UUID) -> None:
        self._in_flight -= 1
        left = self._running[subscription_id] - 1
        if left > 0:
            self._running[subscription_id] = left
        else:
            del self._running[subscription_id]
