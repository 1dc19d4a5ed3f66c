"""Dead letters that died of the same: those of one subscription with one error and one status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from fencepost.filter_values import Codes
from fencepost.filters import DeliveryFilter
from fencepost.model import ErrorClass

_ERASED = "Their payloads were erased: there is nothing to send."
_REMOVED = "The subscription was removed: there is nowhere to send them."


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead letters that share subscription, error class and status.

    Attributes:
        subscription: its name; None when there never was one with this id.
        error: an error class; empty where none was noted.
        status: of the last answer; 0 when none came.
        count: as exact as ``DeadGroups`` says.
        first_at: when the first of them entered the DLQ.
        last_at: when the last did.
        sample_id: the last to enter.
        said: what its last failure said.
        is_removed: the subscription was.
    """

    subscription_id: UUID
    subscription: str | None
    error: str
    status: int
    count: int
    first_at: datetime
    last_at: datetime
    sample_id: UUID
    said: str | None
    is_removed: bool

    @property
    def obstacle(self) -> str | None:
        """Say why none of them can be sent again; None when they may."""
        if self.is_removed:
            return _REMOVED
        return _ERASED if self.error == ErrorClass.PAYLOAD_ERASED else None

    def scope(self, chosen: DeliveryFilter) -> DeliveryFilter | None:
        """Narrow the filter that the groups are of to this one; None when no filter can say it."""
        if not self.error:
            return None
        return replace(
            chosen,
            sub=(self.subscription_id,),
            err=(ErrorClass(self.error),),
            code=(Codes(self.status, self.status),),
        )


@dataclass(frozen=True, slots=True)
class DeadGroups:
    """The groups of what a filter matches, the largest first.

    Attributes:
        as_of: when they were counted; None: just now.
        newest: only so many of the latest to enter were looked at; None: all.
        is_cut: there are smaller ones besides.
    """

    rows: Sequence[DeadGroup]
    as_of: datetime | None = None
    newest: int | None = None
    is_cut: bool = False
