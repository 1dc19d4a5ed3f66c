"""What each figure means, in the words that stand beside it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dashboard.plots import ENOUGH
from fencepost.histograms import RELATIVE_ERROR
from fencepost.store.failing import DEATH_WINDOW, FIRST_TRY_WINDOW, LEAST_ATTEMPTS, LEAST_SHARE
from fencepost.store.standing import NEWEST
from fencepost.store.workers import LATE_AFTER, SILENT_AFTER

DEFINITIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "delivered": "Deliveries that were acknowledged in this period, for each minute of it.",
        "first_try": "Of the deliveries whose first attempt ended in this period, the share that "
        "this attempt delivered. The change is from the period of the same length before.",
        "waiting": "Due now, and in no worker's hands. Held are those of them whose subscription "
        "is paused; the oldest is the one that fell due first, held ones aside.",
        "sleeping": "Not due yet: mostly waiting for another try.",
        "in_flight": "In a worker's hands: claimed, or with the request out. p95 is how long "
        "requests took that ended in this period.",
        "fenced": "Writes of workers that had lost their lease, refused in the last hour.",
        "dlq": "Dead letters that nobody discarded. In brackets those of them that came in the "
        "last hour.",
        "workers": f"Alive is who reported within {LATE_AFTER.seconds} s, late within "
        f"{SILENT_AFTER.seconds} s, silent who did not and was there in the last hour.",
        "failing": f"A subscription fails when something of it came into the DLQ in the last "
        f"{DEATH_WINDOW.seconds // 60} minutes, or when less than {LEAST_SHARE:.0%} of the first "
        f"attempts of the last {FIRST_TRY_WINDOW.seconds // 60} minutes delivered, given at least "
        f"{LEAST_ATTEMPTS} attempts.",
        "retry_rate": "Of the attempts that ended in this period, the share that were not their "
        "delivery's first.",
        "tries": "Attempts that ended in this period, for each delivery that was acknowledged or "
        "came into the DLQ in it.",
        "p95": "95 of 100 deliveries that ended in this period took no longer, from being received "
        f"to the end; within {RELATIVE_ERROR:.0%}.",
        "last_error": f"The last failure among the newest {NEWEST} deliveries that failed and "
        "the newest dead letter.",
        "outcomes": "Attempts by how they ended, at the time when they did. Failures after which "
        "a delivery is tried again stand apart from those that end in the DLQ.",
        "percentiles": "How long each visit took that ended in this period, within "
        f"{RELATIVE_ERROR:.0%}. Of fewer than {ENOUGH}, high percentiles say nothing.",
    }
)
