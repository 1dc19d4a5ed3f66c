"""What a delivery is doing now, row by row; the filter of the same name asks the database."""

from __future__ import annotations

from datetime import datetime

from fencepost.model import Delivery
from fencepost.states import HELD, WAITING, Phase, State


def phase_of(delivery: Delivery, now: datetime) -> Phase | None:
    """Say what a delivery is doing; None: nothing, it is delivered.

    Args:
        delivery: as it was read.
        now: the database's clock at that time.
    """
    state = delivery.current_state
    if state in HELD:
        return Phase.INFLIGHT
    if state in WAITING:
        due = delivery.next_attempt_at
        return Phase.SLEEPING if due is not None and due > now else Phase.WAITING
    return Phase.PARKED if state is State.DLQ else None
