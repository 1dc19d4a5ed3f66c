"""What a benchmark is asked to do, and which subscription each of its events is for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

_GOLDEN: Final = 0.6180339887498949
"""Its multiples spread evenly over 0 to 1: shares hold in any stretch of events."""

Part = Literal["drain", "published", "steady"]
PARTS: Final[tuple[Part, ...]] = ("drain", "published", "steady")
"""Of a run: a backlog is drained; events are published and delivered at once, then steadily."""

WELL: Final = "well"
FAILING: Final = "failing"
HANGING: Final = "hanging"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of a run.

    Attributes:
        transport: what sends the requests.
        workers: processes.
        parts: what to measure.
        deliveries: to be drained; half as many are published and delivered at once.
        seconds: how long the steady part takes.
        rate: events per second of that part; None: half of what the parts before it reached.
        payload: bytes of each event.
        response: bytes of each answer's body; 0: an answer without one.
        subscriptions: to receivers that are well.
        failing: share of all traffic that goes to one more subscription, which answers 503.
        hanging: share that goes to another one, which never answers.
        backlog: deliveries that wait besides.
        is_sleeping: whether those are due tomorrow, and not now.
    """

    transport: str = "requests"
    workers: int = 1
    parts: tuple[Part, ...] = PARTS
    deliveries: int = 20_000
    seconds: float = 5.0
    rate: float | None = None
    payload: int = 500
    response: int = 0
    subscriptions: int = 100
    failing: float = 0.0
    hanging: float = 0.0
    backlog: int = 0
    is_sleeping: bool = False

    @property
    def names(self) -> list[str]:
        """Name all subscriptions; each listens to the event type that is named like it."""
        troubled = [name for name in (FAILING, HANGING) if getattr(self, name)]
        return [*(f"{WELL}_{n}" for n in range(self.subscriptions)), *troubled]

    def name_of(self, number: int) -> str:
        """Say which subscription the event of this number is for."""
        luck = (number * _GOLDEN) % 1
        if luck < self.hanging:
            return HANGING
        if luck < self.hanging + self.failing:
            return FAILING
        return f"{WELL}_{number % self.subscriptions}"

    def well_ones(self, count: int, *, start: int = 0) -> int:
        """Count the events for receivers that are well, from number ``start`` on."""
        return sum(self.name_of(n) not in {HANGING, FAILING} for n in range(start, start + count))

    def events(self, count: int, *, start: int = 0) -> Iterator[tuple[str, bytes]]:
        """Invent events: their types and payloads."""
        for number in range(start, start + count):
            head = f'{{"number": {number}, "padding": "'
            padding = max(0, self.payload - len(head) - 2)
            yield f"bench.{self.name_of(number)}", f'{head}{"x" * padding}"}}'.encode()
