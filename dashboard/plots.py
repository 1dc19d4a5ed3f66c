"""The charts of a page of figures: what is counted, and how it is called."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Final

from dashboard import charts, presenters
from dashboard.charts import Bars, Lines
from dashboard.database import connection
from dashboard.periods import Period
from fencepost.cells import Measure
from fencepost.figures import MEASURES, TOTAL, Figures, Percentiles
from fencepost.segments import SegmentKind
from fencepost.store.figures import read_figures, read_series

ENOUGH: Final = 20
"""Of fewer durations, the 95th and the 99th percentile are the longest one, whatever it was."""

OUTCOMES: Final[Mapping[str, str]] = MappingProxyType(
    {"delivered": "delivered", "failed": "failed, tried again", "dead": "to the DLQ"}
)
PERCENTILES: Final[Mapping[str, str]] = MappingProxyType({"p50": "p50", "p95": "p95", "p99": "p99"})
RETRIES: Final[Mapping[str, str]] = MappingProxyType({"retries": "retry rate"})

SEGMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {kind: presenters.SEGMENTS[kind].label for kind in SegmentKind if kind in MEASURES}
    | {TOTAL: "from being received to the end"}
)

_MARKS: Final[Mapping[float, str]] = MappingProxyType(
    {
        0.1: "0.1 ms", 1: "1 ms", 10: "10 ms", 100: "100 ms", 1e3: "1 s", 1e4: "10 s", 6e4: "1 m",
        6e5: "10 m", 3.6e6: "1 h", 3.6e7: "10 h", 3.6e8: "4 d", 3.6e9: "42 d", 3.6e10: "1 y",
    }
)  # fmt: skip


class Charts:
    """The charts of a period; each is read when a template draws it.

    Args:
        period: which stretch of time, and of what.
    """

    def __init__(self, period: Period) -> None:
        self._period = period

    @cached_property
    def outcomes(self) -> Bars:
        """Draw how many attempts and claims ended how."""
        series = self._series(of=())
        return charts.stack(
            [(at, _outcomes(figures)) for at, figures in series],
            keys=OUTCOMES,
            step=self._period.step,
            until=self._period.window.until,
        )

    @cached_property
    def durations(self) -> Lines:
        """Draw how long the chosen segment took."""
        slots = []
        for at, figures in self._series(of=MEASURES[self._period.seg]):
            found = next(iter(figures.percentiles()), None)
            slots.append((at, percentile_values(found), found.count if found else 0))
        values = [value for _, each, _ in slots for value in each.values() if value is not None]
        return charts.trace(
            slots,
            keys=PERCENTILES,
            step=self._period.step,
            scale=charts.logarithmic(values, named=_MARKS),
            write=presenters.measured,
        )

    @cached_property
    def retries(self) -> Lines:
        """Draw which share of the attempts were retries."""
        return charts.trace(
            [
                (at, {"retries": figures.retry_rate}, figures.ended)
                for at, figures in self._series(of=())
            ],
            keys=RETRIES,
            step=self._period.step,
            scale=charts.linear(1, write=lambda share: f"{100 * share:.0f} %"),
            write=presenters.percent,
        )

    @cached_property
    def figures(self) -> Figures:
        """Add the period up."""
        return read_figures(connection(), self._period.window, self._period.sub)

    def _series(self, *, of: Collection[Measure]) -> Sequence[tuple[datetime, Figures]]:
        period = self._period
        return read_series(connection(), period.drawn, period.step, period.sub, of=of)


def percentile_values(found: Percentiles | None) -> Mapping[str, float | None]:
    """Give what can be said of durations: of too few, no high percentile."""
    if found is None:
        return dict.fromkeys(PERCENTILES)
    has_enough = found.count >= ENOUGH
    return {
        "p50": found.p50_ms,
        "p95": found.p95_ms if has_enough else None,
        "p99": found.p99_ms if has_enough else None,
    }


def _outcomes(figures: Figures) -> Mapping[str, int]:
    return {
        "delivered": figures.delivered,
        "failed": figures.set_back,
        "dead": figures.dead,
    }
