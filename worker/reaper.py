"""The reaper step: take back the leases that ran out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from fencepost.store.leases import read_server_start, reap_expired
from worker import hooks, metrics
from worker.link import Link

log = logging.getLogger(__name__)

BATCH = 200


class Reaper:
    """Any worker reaps for all; locked rows are passed over.

    After a restart of the server, and after its own connection was lost, it waits one
    lease: workers that could not reach the database either must have the time to
    record the answers they already have. Its very first connection is no such case.

    Args:
        link: its connection.
        worker_id: who reaps, for the trail.
        lease: how long leases last.
        may_reap: False while heartbeats are late: a process that slept would take back its
            own leases, which its next beat renews.
        on_new: called when deliveries became due.
    """

    def __init__(
        self,
        link: Link,
        *,
        worker_id: str,
        lease: timedelta,
        may_reap: Callable[[], bool],
        on_new: Callable[[], None],
    ) -> None:
        self._link = link
        self._worker_id = worker_id
        self._lease = lease
        self._may_reap = may_reap
        self._on_new = on_new
        self._seen = 0
        self._holds_until: datetime | None = None
        self._interval = max(0.2, min(2.0, lease.total_seconds() / 10))

    def __call__(self) -> float:
        """Reap one batch; again at once when it was full."""
        with self._link.use() as conn:
            if self._link.opened != self._seen or self._holds_until is not None:
                started_at, now = read_server_start(conn)
                if self._link.opened != self._seen:
                    since = started_at if self._seen == 0 else now
                    self._holds_until = max(since, started_at) + self._lease
                    self._seen = self._link.opened
                if self._holds_until is not None and now < self._holds_until:
                    return min((self._holds_until - now).total_seconds(), 1.0)
                self._holds_until = None
            if not self._may_reap():
                return self._interval
            reaped = reap_expired(conn, worker_id=self._worker_id, batch=BATCH)
        for row in reaped:
            metrics.EXPIRED.inc()
            log.warning(
                "lease.expired delivery=%s holder=%s state=%s now=%s",
                row.id, row.holder, row.from_state, row.current_state,
            )  # fmt: skip
        if reaped:
            hooks.reach("reaped", reaped)
            self._on_new()
        return 0 if len(reaped) == BATCH else self._interval
