"""The rows of a trail in words, with refused writes where they arrived."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from dashboard import presenters
from dashboard.presenters import Look
from fencepost.model import FencedWrite, TrailRow
from fencepost.timeline import Timeline
from fencepost.timeline_text import FENCED_OUT, describe, describe_fenced, format_offset


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the trail, or a late write that was refused.

    Attributes:
        key: of its element.
        look: of its state.
        offset: since the first row.
        at: the database's clock.
        text: what happened.
        worker_id: who wrote it, or would have.
        fencing_token: as presented.
        row: the row itself; None for a refused write.
        detail: as JSON.
        is_backwards: its clock is behind that of the row before it.
    """

    key: str
    look: Look
    offset: str
    at: datetime
    text: str
    worker_id: str | None
    fencing_token: int | None
    row: TrailRow | None
    detail: str
    is_backwards: bool = False


def lines(timeline: Timeline) -> Iterator[Line]:
    """Go through a trail; a refused write stands before the first row that is later."""
    if timeline.origin is None:
        return
    late = list(timeline.fenced)
    before: TrailRow | None = None
    for row in timeline.rows:
        while late and late[0].noted_at < row.created_at:
            yield _refused(late.pop(0), timeline.origin)
        yield Line(
            key=f"row-{row.seq}",
            look=presenters.STATES[row.state],
            offset=format_offset(row.created_at - timeline.origin),
            at=row.created_at,
            text=describe(row, before=before),
            worker_id=row.worker_id,
            fencing_token=row.fencing_token,
            row=row,
            detail=as_json(row.detail),
            is_backwards=before is not None and row.created_at < before.created_at,
        )
        before = row
    for write in late:
        yield _refused(write, timeline.origin)


def _refused(write: FencedWrite, origin: datetime) -> Line:
    return Line(
        key=f"fenced-{write.worker_id}-{write.fencing_token}",
        look=presenters.STATES[FENCED_OUT],
        offset=format_offset(write.noted_at - origin),
        at=write.noted_at,
        text=describe_fenced(write),
        worker_id=write.worker_id,
        fencing_token=write.fencing_token,
        row=None,
        detail=as_json(write.detail),
    )


def as_json(detail: object) -> str:
    """Write what a row keeps besides its columns; nothing for nothing."""
    return json.dumps(detail, ensure_ascii=False, default=str) if detail else ""
