"""Durations in logarithmic buckets: mergeable, and right to two percent at every percentile."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

RELATIVE_ERROR: Final = 0.02
"""Of a percentile, against the exact one of the same durations (by nearest rank)."""

SMALLEST_MS: Final = 0.01
"""Up to this a duration counts as none at all."""

LAST: Final = 999
"""The last bucket; the one before it ends after some thousands of years."""

LOG_GAMMA: Final = math.log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR))
"""Each bucket ends at gamma times the end of the one before it."""


def bucket_of(ms: float) -> int:
    """Say which bucket a duration falls in, from 0.

    Bucket ``n`` holds what is longer than ``SMALLEST_MS * gamma ** (n - 1)`` and not longer than
    ``SMALLEST_MS * gamma ** n``; bucket 0 whatever is shorter. ``store.rollups`` has PostgreSQL
    compute the same.
    """
    if ms <= SMALLEST_MS:
        return 0
    return min(LAST, math.ceil(math.log(ms / SMALLEST_MS) / LOG_GAMMA))


def value_of(bucket: int) -> float:
    """Give the milliseconds that stand for a bucket: as far from its begin as from its end.

    With gamma = (1 + e) / (1 - e) nothing in the bucket is further from it than the share e.
    Source: Masson, Rim and Lee, "DDSketch", VLDB 2019.
    """
    if bucket == 0:
        return 0.0
    return SMALLEST_MS * math.exp(LOG_GAMMA * bucket) * (1 - RELATIVE_ERROR)


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many durations fell in each bucket.

    Adding two gives what one would be that had seen the durations of both, in any order.
    """

    counts: Mapping[int, int] = field(default_factory=dict)
    """Bucket to number; only buckets that hold something."""

    @classmethod
    def of(cls, durations_ms: Iterable[float]) -> Self:
        """Count durations."""
        return cls(Counter(bucket_of(ms) for ms in durations_ms))

    @classmethod
    def from_arrays(cls, buckets: Sequence[int], counts: Sequence[int]) -> Self:
        """Read what ``to_arrays`` gave."""
        return cls(dict(zip(buckets, counts, strict=True)))

    def to_arrays(self) -> tuple[list[int], list[int]]:
        """Give the buckets, ascending, and beside each its number."""
        buckets = sorted(self.counts)
        return buckets, [self.counts[bucket] for bucket in buckets]

    def __add__(self, other: Histogram) -> Histogram:
        """Merge."""
        return Histogram(Counter(self.counts) + Counter(other.counts))

    @property
    def total(self) -> int:
        """How many durations it counts."""
        return sum(self.counts.values())

    def percentile(self, share: float) -> float | None:
        """Give the milliseconds that ``share`` of the durations did not exceed.

        Args:
            share: above 0, at most 1; 1 is the longest.

        Returns:
            The nearest-rank percentile, within ``RELATIVE_ERROR``, or ``SMALLEST_MS`` where it is
            that short; None of no durations.
        """
        if not 0 < share <= 1:
            raise ValueError(f"{share} is no share of a whole")
        rank = math.ceil(share * self.total)
        for bucket in sorted(self.counts):
            rank -= self.counts[bucket]
            if rank <= 0:
                return value_of(bucket)
        return None
