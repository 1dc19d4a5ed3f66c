"""What a run had done and used at each moment, and what it did while it ran evenly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

_BEGINS: Final = 0.1
_ENDS: Final = 0.9
"""Shares of the whole between which a run is even: neither starting nor running out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One moment of a run.

    Attributes:
        at: seconds of a clock that only rises.
        done: how many requests have come by then.
        cpu: seconds of processor time by then, by who has used them.
        memory_mb: what the largest worker occupies; None: nobody tells.
    """

    at: float
    done: int
    cpu: Mapping[str, float]
    memory_mb: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """The samples of a run in their order.

    Attributes:
        samples: at least one.
        total: how many requests are the whole.
    """

    samples: Sequence[Sample]
    total: int

    def at_share(self, share: float) -> Sample:
        """Give the first sample at which this share of the whole was done, or else the last."""
        wanted = share * self.total
        return next((one for one in self.samples if one.done >= wanted), self.samples[-1])

    def steady(self) -> Self:
        """Give the stretch without start and end; all of it when it is too short to have one."""
        begins, ends = self.at_share(_BEGINS), self.at_share(_ENDS)
        if begins.done >= ends.done:
            return self
        return type(self)((begins, ends), self.total)

    @property
    def done(self) -> int:
        """How many requests came between the first and the last sample."""
        return self.samples[-1].done - self.samples[0].done

    @property
    def per_second(self) -> float | None:
        """How many came each second; None: nothing did."""
        seconds = self.samples[-1].at - self.samples[0].at
        return self.done / seconds if self.done and seconds else None

    def cpu_us(self, who: str) -> float | None:
        """Give the microseconds of processor time that each request has cost somebody.

        Args:
            who: a name in the samples; None comes back for any other.
        """
        first, last = (sample.cpu.get(who) for sample in (self.samples[0], self.samples[-1]))
        if first is None or last is None or not self.done:
            return None
        return (last - first) / self.done * 1e6
