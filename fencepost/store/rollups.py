"""Rollups: each row of the trail is counted once, soon after its transaction has committed.

A row tells which transaction wrote it (``written_in``), and ``webhook_rollup_progress`` tells
which transactions have been counted: all below ``upto``, but for those ``pending`` that had not
ended when they were looked for. A run reads with one snapshot, in one statement,

    the rows of transactions from ``upto`` on and below ``stop``, and of those ``pending``,

adds them to their minutes, and notes as the new ``upto`` whichever comes first, ``stop`` or the end
of the snapshot (its xmax), and as the new ``pending`` the transactions below it that the snapshot
shows in progress. *After every run, what is counted is what was committed by transactions below
``upto`` that are not pending*, by induction:

- Whoever is below the new ``upto`` and not among the new ``pending`` had ended by the snapshot, so
  all that it committed was visible; and it was either counted before, or its number is one of those
  that the run reads. Nothing is missed.
- Whoever is pending, or from ``upto`` on, had not ended, so that none of its rows was visible; and
  whoever was counted before is neither pending nor from the old ``upto`` on, so that none of its
  rows is read again. Nothing is counted twice.

Clocks play no part: a row that commits an hour after its ``created_at`` is found by the transaction
that wrote it, and added to the minute it belongs to. ``written_in`` is the number of the whole
transaction, also inside a savepoint, which is why it is a column and not the row's own ``xmin``.
A transaction that stays open is one number in ``pending``, and holds nobody up.

The snapshot has to be younger than the last run's commit: the advisory lock is a statement of its
own. Rollups and progress are written by one statement: a crash leaves both or neither.

What a row adds depends on it and on the row before it in its trail alone: rows never change, and
the one before was committed first, since both writers held the delivery's lock. So it makes no
difference in which run, and in whose company, a row is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row, scalar_row

from fencepost.cells import BY_KIND, BY_WAIT, OTHER_REASON, REASONS, WIDTH, Measure
from fencepost.histograms import LAST, LOG_GAMMA, SMALLEST_MS
from fencepost.segments import RULES, SegmentKind
from fencepost.store.queries import load

_SQL = load("rollups.sql")

EVERYTHING: Final = UUID(int=0)
"""Stands for all subscriptions together, in a subscription's place."""

MINUTES_KEPT: Final = timedelta(hours=25)
"""Then they become hours. A minute of a busy subscription has some 80 cells, 0.8 kB: 1.2 MB for
these, 1.5 MB for the hours of 30 days."""

FOLD_BATCH: Final = 2_000
"""Minutes that one statement makes into hours."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the trail is counted.

    Attributes:
        upto: transactions below it are counted,
        pending: but for these.
        newest: the first transaction that has not begun, or not ended, as far as is known now.
        begun_at: rows from before are not counted.
        fold_before: minutes before this moment are old enough to become hours; None when none is.
    """

    upto: int
    pending: list[int]
    newest: int
    begun_at: datetime
    fold_before: datetime | None


@dataclass(frozen=True, slots=True)
class Rolled:
    """What a run did: rows of the trail that it counted, and whether there was no more to count."""

    rows: int
    is_caught_up: bool


def read_idle_time(conn: Connection[Any]) -> timedelta:
    """Give the time since the last run, whichever worker's."""
    with conn.cursor(row_factory=scalar_row) as cur:
        found = cur.execute(_SQL.read_idle_time).fetchone()
    return timedelta.max if found is None else found


def take_rollup(conn: Connection[Any]) -> bool:
    """Become the one worker that rolls up, until the transaction ends; False: another is it."""
    with conn.cursor(row_factory=scalar_row) as cur:
        return bool(cur.execute(_SQL.take_rollup).fetchone())


def read_progress(conn: Connection[Any]) -> Progress:
    """Read how far the trail is counted."""
    with conn.cursor(row_factory=class_row(Progress)) as cur:
        found = cur.execute(_SQL.read_progress, {"kept": MINUTES_KEPT}).fetchone()
    if found is None:
        raise LookupError("webhook_rollup_progress has lost its row")
    return found


def roll_up(conn: Connection[Any], *, transactions: int) -> Rolled:
    """Count what was committed since the last run.

    Args:
        conn: in the transaction of ``take_rollup``, READ COMMITTED; the caller commits.
        transactions: count those of so many at most; the others are the next run's.
    """
    at = read_progress(conn)
    if at.newest < at.upto:
        conn.execute(_SQL.begin_anew)
        return Rolled(0, is_caught_up=True)
    # A backlog's statistics are old, and a plan made for an empty trail would read all of it.
    conn.execute(_SQL.pin_plan)
    params = {
        "upto": at.upto,
        "stop": at.upto + transactions,
        "pending": at.pending,
        "begun_at": at.begun_at,
    }
    with conn.cursor(row_factory=class_row(Rolled)) as cur:
        found = cur.execute(_composed("roll_up"), params, prepare=False).fetchone()
    if found is None:
        raise LookupError("webhook_rollup_progress has lost its row")
    return found


def fold(conn: Connection[Any], *, before: datetime, keep: timedelta) -> bool:
    """Make old minutes into hours, one batch of them; forget hours that are older than ``keep``.

    Args:
        conn: in the transaction of ``take_rollup``; the caller commits.
        before: from ``Progress.fold_before``.
        keep: as long as the deliveries that they tell of.

    Returns:
        Whether that was all.
    """
    with conn.cursor(row_factory=scalar_row) as cur:
        params = {"before": before, "batch": FOLD_BATCH}
        folded = cur.execute(_composed("fold_minutes"), params).fetchone() or 0
    if folded == FOLD_BATCH:
        return False
    conn.execute(_composed("forget_hours"), {"before": before - keep})
    conn.execute(_SQL.note_folded, {"upto": before})
    return True


@cache
def _composed(name: str) -> sql.Composed:
    """Write the table of segments, the numbers of cells and the edges of buckets into SQL."""
    rules = sql.SQL(", ").join(
        sql.SQL("({}, {}, {})").format(
            sql.Literal(str(rule.state)), sql.Literal(str(rule.part)), int(BY_KIND[rule.kind])
        )
        for rule in RULES
    )
    parts = {
        "rules": rules,
        "waiting": int(BY_KIND[SegmentKind.WAITING]),
        "waits": _case(BY_WAIT.items(), Measure.WAITING),
        "reasons": _case(REASONS.items(), OTHER_REASON),
        "total": int(Measure.TOTAL),
        "width": WIDTH,
        "last": LAST,
        "log_gamma": LOG_GAMMA,
        "smallest": SMALLEST_MS / 1000,
        "everything": EVERYTHING,
        "add": sql.SQL(_SQL.add),
    }
    return sql.SQL(dict(_SQL)[name]).format(**parts)


def _case(numbers: Iterable[tuple[str, int]], otherwise: int) -> sql.Composed:
    """Write the branches of a ``CASE``."""
    branch = sql.SQL("WHEN {} THEN {}")
    written = [branch.format(sql.Literal(str(text)), int(number)) for text, number in numbers]
    return sql.SQL("{} ELSE {}").format(sql.SQL(" ").join(written), int(otherwise))
