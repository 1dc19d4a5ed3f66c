"""What the page of one subscription shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from flask import g
from sqlalchemy import select

from dashboard import actions
from dashboard.database import connection
from dashboard.models import Subscription, db
from dashboard.periods import Period
from dashboard.retry_strip import draw_strip
from fencepost import signing
from fencepost.action_filter import ActionFilter
from fencepost.filters import DeliveryFilter
from fencepost.store import deliveries, subscriptions
from fencepost.store.actions import list_actions
from fencepost.store.dead_groups import read_groups
from fencepost.store.failing import read_failing
from fencepost.store.standing import CAP, count_answers, read_standing

_NEWEST: Final = 20


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause: since when, and who made it; None: a worker, for what the receiver answered."""

    since: datetime | None
    actor: str | None


def read_state(id_: UUID) -> dict[str, Any]:
    """Read what it is, and how it stands."""
    conn = connection()
    found = subscriptions.get_subscription(conn, id_, with_removed=True)
    return {
        "subscription": found,
        "pause": _read_pause(id_) if found.state == "paused" else None,
        "is_failing": id_ in read_failing(conn),
        "standing": read_standing(conn, id_),
        "strip": draw_strip(found),
        "actions": actions.of_subscription(found, g.actor.role),
        "signature_header": signing.header_name(found.signature_scheme, found.signature_header),
    }


def read_lists(id_: UUID, period: Period) -> dict[str, Any]:
    """Read what was answered, what died, and what is new."""
    conn = connection()
    own = DeliveryFilter(sub=(id_,))
    answers = count_answers(conn, id_, period.window)
    return {
        "subscription": subscriptions.get_subscription(conn, id_, with_removed=True),
        "period": period,
        "answers": answers,
        "newest": CAP if sum(each.count for each in answers) >= CAP else None,
        "groups": read_groups(conn, own),
        "rows": deliveries.list_deliveries(conn, own, limit=_NEWEST).rows,
    }


def _read_pause(id_: UUID) -> Pause:
    """Find who paused it, in the log of what people did since it was last resumed."""
    since = db.session.scalar(select(Subscription.paused_at).where(Subscription.id == id_))
    acts = list_actions(
        connection(),
        ActionFilter(action="subscription.pause", target=str(id_), outcome="done", since=since),
        limit=1,
    )
    return Pause(since, acts.rows[0].actor if acts.rows else None)
