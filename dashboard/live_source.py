"""What the hub reads: the newest rows of the trail, and the state of what is being watched."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import DateTime, Engine, func, select
from sqlalchemy.engine import Connection

from dashboard.database import errors_as_ours
from dashboard.live import Changes
from dashboard.models import Delivery, FencedWrite, Replay, TrailRow
from fencepost.states import Fact, State

WINDOW: Final = timedelta(seconds=10)
"""Longer than our longest statement: rows become visible in the order of their commits,
not of their times, so each look reads again what the last ones read."""

_ENOUGH: Final = 5_000
"""New rows in one look; with more than that everything counts as changed."""

_QUEUE: Final = frozenset({State.DLQ, Fact.REPLAYED})

_now = func.fencepost_now(type_=DateTime(timezone=True))
_new_rows = (
    select(TrailRow.delivery_id, TrailRow.seq, TrailRow.state, TrailRow.created_at)
    .where(TrailRow.created_at > _now - WINDOW)  # served by the BRIN index
    .limit(_ENOUGH)
)
_fenced = (
    select(func.count())
    .where(FencedWrite.delivery_id == Delivery.id)
    .correlate(Delivery)
    .scalar_subquery()
)


class DatabaseSource:
    """Reads through the application's pool, a few milliseconds at a time.

    Args:
        engine: of the application.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.forget()

    def forget(self) -> None:
        """Start anew: rows in the window at the next look count as seen."""
        self._seen: dict[tuple[UUID, int], datetime] = {}
        self._deliveries: dict[UUID, tuple[Any, ...]] = {}
        self._replays: dict[UUID, tuple[Any, ...]] = {}
        self._is_first = True

    def look(self, *, deliveries: frozenset[UUID], replays: frozenset[UUID]) -> Changes:
        """Compare with the look before.

        Raises:
            DatabaseUnavailableError: the database is away.
        """
        with errors_as_ours(), self._engine.connect() as conn:
            now: datetime = conn.execute(select(_now)).scalar_one()
            states, is_full = self._new_states(conn, now)
            moved = bool(states) or is_full
            return Changes(
                now=now,
                moved=moved,
                died=states.count(State.DLQ),
                queue_changed=is_full or not _QUEUE.isdisjoint(states),
                deliveries=self._changed_deliveries(conn, deliveries),
                replays=self._changed_replays(conn, replays, moved=moved),
            )

    def _new_states(self, conn: Connection, now: datetime) -> tuple[list[str], bool]:
        rows = conn.execute(_new_rows).all()
        new = [row for row in rows if (row.delivery_id, row.seq) not in self._seen]
        # A little longer than the window: what leaves it is never read again.
        horizon = now - 2 * WINDOW
        self._seen = {key: at for key, at in self._seen.items() if at > horizon}
        self._seen |= {(row.delivery_id, row.seq): row.created_at for row in new}
        is_first, self._is_first = self._is_first, False
        if is_first:
            return [], False
        return [row.state for row in new], len(rows) == _ENOUGH

    def _changed_deliveries(
        self, conn: Connection, ids: frozenset[UUID]
    ) -> dict[UUID, dict[str, Any]]:
        if not ids:
            return {}
        rows = conn.execute(
            select(Delivery.id, Delivery.seq, Delivery.current_state, _fenced.label("fenced"))
            .where(Delivery.id.in_(ids))
        ).all()  # fmt: skip
        found = {row.id: (row.seq, row.current_state, row.fenced) for row in rows}
        before, self._deliveries = self._deliveries, found
        return {
            id_: {"id": str(id_), "state": state, "seq": seq}
            for id_, (seq, state, fenced) in found.items()
            if id_ in before and before[id_] != (seq, state, fenced)
        }

    def _changed_replays(
        self, conn: Connection, ids: frozenset[UUID], *, moved: bool
    ) -> dict[UUID, dict[str, Any]]:
        """Find the replays that went on; what they sent may be delivered by any move."""
        if not ids:
            return {}
        columns = (Replay.id, Replay.state, Replay.requeued, Replay.skipped, Replay.eligible)
        rows = conn.execute(select(*columns).where(Replay.id.in_(ids))).all()
        found = {row.id: (row.state, row.requeued, row.skipped) for row in rows}
        before, self._replays = self._replays, found
        return {
            row.id: {
                "id": str(row.id),
                "state": row.state,
                "requeued": row.requeued,
                "total": row.eligible,
            }
            for row in rows
            if row.id in before and (moved or before[row.id] != found[row.id])
        }
