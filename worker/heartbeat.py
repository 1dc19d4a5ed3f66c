"""The heartbeat step: extend every lease of this process, and find out which are lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

from fencepost.model import Lease
from fencepost.store.leases import renew_many
from fencepost.store.registry import Beat, beat
from worker import hooks, metrics
from worker.link import Link
from worker.roster import Roster

log = logging.getLogger(__name__)

LARGEST_BATCH = 200


class Heartbeat:
    """Renew in batches, on a connection that nothing else uses.

    Args:
        link: its own connection, whose statements may not take longer than a beat.
        lease: how long leases last; it beats every third of that.
        roster: what this process holds.
        abort: called for each lease that turns out to be lost.
        describe: what the registry says of this worker.
        clock: seconds that only rise.
    """

    def __init__(
        self,
        link: Link,
        *,
        worker_id: str,
        lease: timedelta,
        roster: Roster,
        abort: Callable[[Lease], None],
        describe: Callable[[], Beat],
        clock: Callable[[], float],
    ) -> None:
        self._link = link
        self._worker_id = worker_id
        self._lease = lease
        self._roster = roster
        self._abort = abort
        self._describe = describe
        self._clock = clock
        self._beaten_at = clock()

    @property
    def is_fresh(self) -> bool:
        """Whether the last beat is recent enough for new leases to be kept."""
        return self._clock() - self._beaten_at < self._lease.total_seconds() * 2 / 3

    def __call__(self) -> float:
        """Beat once."""
        began = self._clock()
        with self._link.use() as conn:
            leases = self._roster.to_renew()
            for first in range(0, len(leases), LARGEST_BATCH):
                some = leases[first : first + LARGEST_BATCH]
                gone = renew_many(conn, some, worker_id=self._worker_id, lease=self._lease)
                for lease in self._roster.lose(gone):
                    metrics.LEASES_LOST.inc()
                    log.warning("lease.lost delivery=%s token=%d", *_named(lease))
                    self._abort(lease)
            beat(conn, self._describe())
        self._beaten_at = began
        hooks.reach("beat", None)
        return self._lease.total_seconds() / 3


def _named(lease: Lease) -> tuple[object, int]:
    return lease.delivery_id, lease.fencing_token
