"""What a history that is made up consists of: how much, over which time, and who behaves how."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Final

from history_figures import DAY, HOUR, MINUTE
from history_subscriptions import Subscription, make_customers

from fencepost.ids import uuid7

_RUSH: Final = MINUTE // 12
_BY_HOUR: Final = (4, 3, 2, 2, 2, 3, 4, 6, 9, 11, 12, 12, 11, 12, 13, 13, 12, 10, 8, 7, 6, 6, 5, 5)
_OFTEN: Final = 0.1
_REPLAYED: Final = 12


@dataclass(frozen=True, slots=True)
class Replay:
    """A bulk replay of the dead letters that one subscription has had since a moment.

    Attributes:
        subscription: its number.
        at: when it was started.
        reaches_back_to: what died earlier is not in it.
    """

    id: bytes
    subscription: int
    at: int
    actor: str
    reason: str
    reaches_back_to: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How large a history is, and the chance that it is made with.

    Attributes:
        deliveries: about so many.
        until: its end, microseconds since 1970.
        days: how far it goes back.
        subscriptions: about so many, some of them of one customer; the first get most.
        most_attempts: budget of the most patient subscription.
        seed: the same one makes the same history.
    """

    deliveries: int
    until: int
    days: int = 365
    subscriptions: int = 10_000
    most_attempts: int = 1000
    seed: int = 1
    chance: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "chance", random.Random(self.seed))  # noqa: S311 - no secret

    @property
    def start(self) -> int:
        """When it begins."""
        return self.until - self.days * DAY

    @cached_property
    def all(self) -> Sequence[Subscription]:
        """Make the subscriptions, customer after customer."""
        return [each for customer in self.customers for each in customer]

    @cached_property
    def customers(self) -> Sequence[Sequence[Subscription]]:
        """Make them by customer, the largest first."""
        return make_customers(
            self.chance,
            count=self.subscriptions,
            start=self.start,
            until=self.until,
            most_attempts=self.most_attempts,
        )

    @cached_property
    def replays(self) -> Sequence[Replay]:
        """Make the bulk replays: two a month, of those that fail, each by somebody for a reason."""
        failing = [each.number for each in self.all if each.spent > _OFTEN][:_REPLAYED]
        found = []
        for n in range(max(1, self.days // 15) if failing else 0):
            at = self.start + int((n + 0.9) * min(15, self.days) * DAY)
            if at < self.until:
                found.append(Replay(
                    id=uuid7(at // 1000, self.chance.randbytes(10)).bytes,
                    subscription=failing[n % len(failing)],
                    at=at,
                    actor=f"user {self.chance.choice(('dana', 'kim', 'noor'))}",
                    reason=f"they mended their gateway, INC-{1000 + 7 * n}",
                    reaches_back_to=at - 14 * DAY,
                ))  # fmt: skip
        return found

    def days_and_events(self) -> Iterator[tuple[int, list[int]]]:
        """Give for each day where it ends and when its events are published, in order.

        Traffic doubles over the time, rests at weekends and at night; the last seconds are busy.
        """
        of_event = self._deliveries_of_an_event()
        weights = [
            (1 + day / self.days) * (0.55 if day % 7 in {5, 6} else 1.0) for day in range(self.days)
        ]
        whole = sum(weights)
        for day, weight in enumerate(weights):
            begin = self.start + day * DAY
            count = round(self.deliveries * weight / whole / of_event)
            hours = self.chance.choices(range(24), _BY_HOUR, k=count)
            times = [
                begin + (hour * HOUR - begin) % DAY + int(self.chance.random() * HOUR)
                for hour in hours
            ]
            if day == self.days - 1:
                busy = max(50, self.deliveries // 5000)
                times += [self.until - int(self.chance.random() * _RUSH) for _ in range(busy)]
            yield begin + DAY, sorted(time for time in times if time <= self.until)

    def customer(self, at: int) -> Sequence[Subscription]:
        """Choose whose event it is: the share of the n-th is a n-th of the first one's."""
        while True:
            luck = self.chance.random() * self._shares[-1]
            found = self.customers[bisect(self._shares, luck)]
            if found[0].created_at <= at:
                return found

    @cached_property
    def _shares(self) -> Sequence[float]:
        return list(accumulate(1 / rank for rank in range(1, len(self.customers) + 1)))

    def _deliveries_of_an_event(self) -> float:
        # Of a customer with several subscriptions half of the events are of a shared type.
        shares = [1 / rank for rank in range(1, len(self.customers) + 1)]
        met = (
            share * (1 + (len(customer) - 1) / 2)
            for share, customer in zip(shares, self.customers, strict=True)
        )
        return sum(met) / sum(shares)
