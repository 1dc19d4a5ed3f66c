"""How much of a worker a subscription may use: one more with a success, half with a failure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

FIRST_SHARE = 2
MOST_REMEMBERED = 2000
"""Subscriptions; the one that was heard of least recently starts anew."""


@dataclass(slots=True)
class _Known:
    share: int = FIRST_SHARE
    is_slow: bool = False


class Shares:
    """The adaptive share of each subscription in one worker; its caller holds the lock.

    A subscription begins with a share of two. Each success adds one; each time-out, 429 or
    5xx halves it. So a receiver that recovers is ramped up, and one that fails slows
    itself only. Those whose last attempt timed out hold at most half of the slots together.

    Args:
        most: the largest share.
        concurrency: the slots of the worker.
    """

    def __init__(self, *, most: int, concurrency: int) -> None:
        self._most = most
        self._half = max(1, concurrency // 2)
        self._known: OrderedDict[UUID, _Known] = OrderedDict()

    @property
    def first(self) -> int:
        """The share of a subscription of which nothing is known."""
        return min(FIRST_SHARE, self._most)

    def succeeded(self, subscription_id: UUID) -> None:
        """Let it have one more."""
        known = self._of(subscription_id)
        known.share = min(self._most, known.share + 1)
        known.is_slow = False

    def failed(self, subscription_id: UUID, *, timed_out: bool) -> None:
        """Let it have half, but one at least."""
        known = self._of(subscription_id)
        known.share = max(1, known.share // 2)
        known.is_slow = timed_out

    def of(self, subscription_id: UUID) -> int:
        """Give its share, whatever the others hold."""
        known = self._known.get(subscription_id)
        return self.first if known is None else min(self._most, known.share)

    def all(self, held: Mapping[UUID, int]) -> dict[UUID, int]:
        """Give the shares that differ from the first one.

        Args:
            held: what each subscription has in flight now.
        """
        shares = {
            id_: known.share
            for id_, known in self._known.items()
            if known.share != self.first and not known.is_slow
        }
        slow = [id_ for id_, known in self._known.items() if known.is_slow]
        left = self._half - sum(held.get(id_, 0) for id_ in slow)
        each = -(-left // len(slow)) if slow and left > 0 else 0
        for id_ in slow:
            here = held.get(id_, 0)
            shares[id_] = min(self._known[id_].share, here + min(each, max(0, left)))
            left -= max(0, shares[id_] - here)
        return shares

    def _of(self, subscription_id: UUID) -> _Known:
        known = self._known.get(subscription_id)
        if known is None:
            known = self._known[subscription_id] = _Known()
            if len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(subscription_id)
        return known
