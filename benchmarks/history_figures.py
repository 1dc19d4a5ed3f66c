"""The rollups of a history that is made up: what a worker would have counted, in the same cells."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from copying import integer, integers, moment, row, smallint, uuid

from fencepost.cells import WIDTH
from fencepost.histograms import LAST, LOG_GAMMA, SMALLEST_MS

MINUTE: Final = 60_000_000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

COUNTERS: Final = (
    "received", "attempts", "ended", "retries", "delivered", "first_delivered", "failed",
    "lease_expiries", "dead", "replayed", "discarded", "fenced",
)  # fmt: skip
COLUMNS: Final = " ".join(("subscription_id", "minutes", "starts_at", *COUNTERS, "cells", "counts"))
(
    RECEIVED, ATTEMPTS, ENDED, RETRIES, DELIVERED, FIRST_DELIVERED, FAILED,
    LEASE_EXPIRIES, DEAD, REPLAYED, DISCARDED, FENCED,
) = range(-len(COUNTERS), 0)  # fmt: skip
"""Counters are cells too, below all others, for as long as figures are collected."""

_EVERYTHING: Final = bytes(16)
_BITS: Final = 14  # of a cell; all cells there are fit, and the counters
_SHIFT: Final = len(COUNTERS)


class Figures:
    """Counts, by the minute or the hour in which something ended and by subscription."""

    def __init__(self, subscriptions: Sequence[bytes], *, minutes_from: int) -> None:
        """Begin with nothing.

        Args:
            subscriptions: their ids; a subscription is named by its place in here.
            minutes_from: from this moment on minutes are kept, before it hours; a full hour.
        """
        self._subscriptions: Final = subscriptions
        self._minutes_from: Final = minutes_from
        self._found: Final[dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(int))

    def count(self, subscription: int, at: int, *cells: int) -> None:
        """Add one to each of these cells."""
        bucket = self._found[at - at % (MINUTE if at >= self._minutes_from else HOUR)]
        base = (subscription << _BITS) + _SHIFT
        for cell in cells:
            bucket[base + cell] += 1

    def take(self, before: int) -> Iterator[bytes]:
        """Give the rows of all minutes and hours that are over by then, and forget them."""
        for start in sorted(start for start in self._found if start < before):
            yield from self._rows(start, self._found.pop(start))

    def _rows(self, start: int, found: Mapping[int, int]) -> Iterator[bytes]:
        of_each: dict[int, dict[int, int]] = defaultdict(dict)
        of_all: dict[int, int] = defaultdict(int)
        for key, number in found.items():
            cell = (key & (1 << _BITS) - 1) - _SHIFT
            of_each[key >> _BITS][cell] = number
            of_all[cell] += number
        yield self._row(_EVERYTHING, start, of_all)
        for subscription, cells in of_each.items():
            yield self._row(self._subscriptions[subscription], start, cells)

    def _row(self, subscription: bytes, start: int, found: Mapping[int, int]) -> bytes:
        cells = sorted(cell for cell in found if cell >= 0)
        return row(
            uuid(subscription),
            smallint(1 if start >= self._minutes_from else 60),
            moment(start),
            *(integer(found.get(counter, 0)) for counter in range(-len(COUNTERS), 0)),
            integers(cells),
            integers([found[cell] for cell in cells]),
        )


def cell_of(measure: int, microseconds: int) -> int:
    """Say which cell counts a duration. Source: ``fencepost.histograms.bucket_of``."""
    ms = microseconds / 1000
    if ms <= SMALLEST_MS:
        return measure * WIDTH
    return measure * WIDTH + min(LAST, math.ceil(math.log(ms / SMALLEST_MS) / LOG_GAMMA))
