"""What is new in the trail since somebody looked last; no commit is missed, however late it comes.

A row tells which transaction wrote it. A reader keeps two things of the snapshot it read with: its
end, below which every transaction had begun, and which of those were still under way. What is new
at the next look was written by the latter, or by transactions from the end on: none of them was
visible before. Clocks play no part, and nothing has to be read twice.

The beginning of a snapshot, below which everything had ended, is one number that says where a
reader stands. Another reader, in another process, can go on from it: it may tell again what the
first one told, and leaves nothing out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from psycopg import Connection
from psycopg.rows import class_row

from fencepost.store.queries import load

_SQL = load("changes.sql")

MOST: Final = 5_000
"""Rows that one look counts; with more, everything counts as changed."""

_NEVER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Changes:
    """What one look found, and where the next one goes on.

    Attributes:
        now: the database's clock.
        mark: everything below it had ended: where another reader can go on.
        upto: transactions from here on had not begun, or not ended.
        pending: nor had these, below it.
        rows: new ones of the trail, up to ``MOST``.
        died: how many of them say that a delivery entered the DLQ.
        left_queue: how many say that an operator acted on one.
        fenced: whether fencing refused a late write.
    """

    now: datetime
    mark: int
    upto: int
    pending: list[int]
    rows: int
    died: int
    left_queue: int
    fenced: bool

    @property
    def is_full(self) -> bool:
        """Whether there was more than was counted."""
        return self.rows >= MOST

    @property
    def moved(self) -> bool:
        """Whether anything is new."""
        return self.rows > 0 or self.fenced

    @property
    def queue_changed(self) -> bool:
        """Whether anything entered or left the DLQ."""
        return self.is_full or self.died > 0 or self.left_queue > 0


def read_changes(conn: Connection[Any], since: Changes | None) -> Changes:
    """Read what was committed since a look; since none, nothing is new.

    Args:
        conn: in a transaction, READ COMMITTED; its plans are pinned until that ends.
        since: what the look before gave.
    """
    if since is None:
        return _read(conn, _NEVER, [])
    found = _read(conn, since.upto, since.pending)
    # In another cluster, restored from a dump, transactions count from the beginning.
    return found if found.upto >= since.upto else _read(conn, _NEVER, [])


def read_since(conn: Connection[Any], mark: int) -> Changes | None:
    """Read what was committed since a reader stood at a mark; None: too much, or no mark of ours.

    Args:
        conn: in a transaction, READ COMMITTED; its plans are pinned until that ends.
        mark: of a look by whichever process.
    """
    found = _read(conn, mark, [])
    return None if found.is_full or mark > found.upto else found


def _read(conn: Connection[Any], upto: int, pending: list[int]) -> Changes:
    conn.execute(_SQL.pin_plan)
    params = {"upto": upto, "pending": pending, "most": MOST}
    with conn.cursor(row_factory=class_row(Changes)) as cur:
        return cast("Changes", cur.execute(_SQL.read_changes, params).fetchone())
