"""What the hub reads: what is new in the trail, and the state of what is being watched."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from psycopg import Connection as Driver
from sqlalchemy import Engine, func, select
from sqlalchemy.engine import Connection

from dashboard.database import driver, errors_as_ours
from dashboard.models import Delivery, FencedWrite, Replay
from dashboard.signals import Found, Trail, Wanted
from fencepost.store import changes
from fencepost.store.changes import Changes
from fencepost.store.logins import list_open

_FENCED: Final = (
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
        """Start anew: what is there at the next look is no news."""
        self._last: Changes | None = None
        self._watched: dict[UUID, tuple[object, ...]] = {}

    def look(self, wanted: Wanted) -> Found:
        """Compare with the look before.

        Raises:
            DatabaseUnavailableError: the database is away.
        """
        with errors_as_ours(), self._engine.connect() as conn:
            new = changes.read_changes(driver(conn), self._last)
            # Later than the look itself, so that whoever resumes misses nothing in between.
            resumed = None if wanted.since is None else _resume(driver(conn), wanted.since)
            deliveries = _read_deliveries(conn, wanted.deliveries)
            replays = _read_replays(conn, wanted.replays)
            is_open = list_open(driver(conn), wanted.sessions) if wanted.sessions else frozenset()
        state = {id_: state for id_, (state, _) in (deliveries | replays).items()}
        changed = {
            id_ for id_ in state.keys() & self._watched.keys() if state[id_] != self._watched[id_]
        }
        if new.moved:  # the failures that a replay's page names may be among them
            changed |= replays.keys()
        self._last, self._watched = new, state
        return Found(
            now=new.now,
            mark=new.mark,
            trail=_trail(new),
            resumed=resumed,
            watched={id_: data for id_, (_, data) in (deliveries | replays).items()},
            changed=frozenset(changed),
            over=wanted.sessions - is_open,
        )


_Watched = dict[UUID, tuple[tuple[object, ...], dict[str, Any]]]
"""By id: what tells a change, and what the page is told."""


def _read_deliveries(conn: Connection, ids: frozenset[UUID]) -> _Watched:
    if not ids:
        return {}
    rows = conn.execute(
        select(Delivery.id, Delivery.seq, Delivery.current_state, _FENCED.label("fenced"))
        .where(Delivery.id.in_(ids))
    )  # fmt: skip
    return {
        row.id: (
            (row.seq, row.fenced),
            {"id": str(row.id), "state": row.current_state, "seq": row.seq},
        )
        for row in rows
    }


def _read_replays(conn: Connection, ids: frozenset[UUID]) -> _Watched:
    if not ids:
        return {}
    # Outcomes are counted a little after the moves: their numbers are news of their own.
    numbers = (Replay.requeued, Replay.skipped, Replay.delivered, Replay.failed, Replay.passed_on)
    columns = (Replay.id, Replay.eligible, Replay.state, *numbers)
    return {
        row.id: (
            tuple(row)[2:],
            {
                "id": str(row.id),
                "state": row.state,
                "requeued": row.requeued,
                "total": row.eligible,
            },
        )
        for row in conn.execute(select(*columns).where(Replay.id.in_(ids)))
    }


def _resume(conn: Driver[Any], mark: int) -> Trail | None:
    found = changes.read_since(conn, mark)
    return None if found is None else _trail(found)


def _trail(found: Changes) -> Trail:
    return Trail(found.moved, found.died, found.queue_changed)
