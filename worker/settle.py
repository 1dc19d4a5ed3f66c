"""The settle step: write what became of leases, in batches worth a statement."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Connection

from fencepost.states import Cause, State
from fencepost.store.settlements import (
    Settled,
    Settlement,
    note_health,
    pause_failing,
    pause_gone,
    settle_many,
)
from worker import hooks, metrics
from worker.link import Link
from worker.pace import Pace
from worker.roster import Roster
from worker.tray import Tray

log = logging.getLogger(__name__)

LARGEST_BATCH = 400
IDLE_SECONDS = 0.5
HEALTH_MEMORY = timedelta(minutes=1)
"""How long a worker believes what it has noted of a subscription; others note too."""

_REFUSALS = (psycopg.DataError, psycopg.IntegrityError)
"""What one row can be to blame for. A missing right or column is no fault of any row: then the
batch is kept, and tried again."""


class Settle:
    """Take settlements from any thread and write them.

    Args:
        link: its connection.
        worker_id: this process.
        roster: forgets what is settled.
        pace: counts the requests among it.
        on_taken: called before a batch is written.
        on_settled: called after each batch: slots may have come free.
        clock: seconds that only rise.
    """

    def __init__(
        self,
        link: Link,
        *,
        worker_id: str,
        roster: Roster,
        pace: Pace,
        on_taken: Callable[[], None],
        on_settled: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._link = link
        self._worker_id = worker_id
        self._roster = roster
        self._pace = pace
        self._on_taken = on_taken
        self._on_settled = on_settled
        self._clock = clock
        self._tray: Tray[Settlement] = Tray()
        self._batch: list[Settlement] = []
        self._health: dict[UUID, tuple[bool, float]] = {}
        self._still_to_pause: set[UUID] = set()
        self.is_well = True
        """Whether the last batch was written: while outcomes cannot be, nothing should leave."""

    def put(self, settlement: Settlement) -> None:
        """Take one settlement; never blocks. The roster bounds how many there can be."""
        self._tray.put(settlement, can_wait=self._roster.can_wait(settlement.lease))

    def __call__(self) -> float:
        """Write one batch. A batch that could not be written is tried again as it is.

        That is safe: each row is guarded by its lease, and one that was written by a
        try whose answer was lost is known again.
        """
        if not self._batch:
            self._batch = self._tray.take(most=LARGEST_BATCH, within=IDLE_SECONDS)
            self._on_taken()
        if self._batch:
            try:
                self._write()
            finally:
                self.is_well = not self._batch
        if self._still_to_pause:
            with self._link.use() as conn:
                self._still_to_pause = pause_gone(
                    conn, self._still_to_pause, worker_id=self._worker_id
                )
        return 0

    def _write(self) -> None:
        with self._link.use() as conn:
            try:
                settled = settle_many(conn, self._batch, worker_id=self._worker_id)
            except _REFUSALS as error:
                _report_refusal(error, f"batch={len(self._batch)}")
                settled = self._one_by_one(conn)
            done, self._batch = self._batch, []
            health = self._judge_health(done)
            self._roster.drop(item.lease for item in done)
            self._on_settled()
            self._pace.note(ms for item in done if (ms := item.latency_ms) is not None)
            self._report(settled)
            self._still_to_pause |= {row.still_to_pause for row in settled if row.still_to_pause}
            hooks.reach("settled", settled)
            self._note_health(conn, health)

    def _note_health(self, conn: Connection[Any], health: Mapping[UUID, bool]) -> None:
        if not health:
            return
        failing = [id_ for id_, is_failing in health.items() if is_failing]
        note_health(conn, failing=failing, succeeding=health.keys() - set(failing))
        if failing:
            for subscription_id in pause_failing(conn, failing, worker_id=self._worker_id):
                log.warning("subscription.paused reason=failing subscription=%s", subscription_id)
        now = self._clock()
        until = now + HEALTH_MEMORY.total_seconds()
        # What is no longer believed is forgotten: subscriptions come and go.
        self._health = {id_: known for id_, known in self._health.items() if known[1] > now}
        self._health.update((id_, (is_failing, until)) for id_, is_failing in health.items())

    def _one_by_one(self, conn: Connection[Any]) -> list[Settled]:
        """Write a batch that the database refused, each alone, so that one row costs no other.

        A row that is refused alone is written without what the receiver sent; if even
        that is refused, its lease runs out and the reaper takes it back.
        """
        settled: list[Settled] = []
        for item in self._batch:
            bare = replace(item, message="not recorded", detail={}, response=None)
            for version in (item, bare):
                try:
                    settled += settle_many(conn, [version], worker_id=self._worker_id)
                    break
                except _REFUSALS as error:
                    _report_refusal(error, f"delivery={item.lease.delivery_id}")
        return settled

    def _judge_health(self, done: Sequence[Settlement]) -> dict[UUID, bool]:
        """Say which subscriptions began to fail or to succeed, as far as this process knows."""
        now = self._clock()
        news: dict[UUID, bool] = {}
        for item in done:
            if item.state is not State.ATTEMPTED or item.is_ours or item.was_aborted:
                continue
            subscription_id = self._roster.subscription_of(item.lease)
            if subscription_id is None:
                continue
            is_failing = item.cause is not Cause.SUCCEED
            known = self._health.get(subscription_id)
            if known is None or known[0] != is_failing or known[1] <= now:
                news[subscription_id] = is_failing
        return news

    def _report(self, settled: Sequence[Settled]) -> None:
        metrics.SETTLED.inc(sum(row.settled for row in settled))
        for row in settled:
            if row.fenced:
                metrics.FENCED_OUT.inc()
                log.warning("delivery.fenced_out delivery=%s", row.id)
            if row.paused:
                log.warning("subscription.paused reason=410 delivery=%s", row.id)


def _report_refusal(error: psycopg.Error, what: str) -> None:
    """Log that something was refused, and why, without the row: what receivers sent is in it."""
    message = error.diag.message_primary
    log.error("settle.refused %s sqlstate=%s error=%s", what, error.sqlstate, message)
