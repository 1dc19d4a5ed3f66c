"""What the cells of a rollup mean: durations by measure and bucket, dead letters by reason.

The numbers are stored: each keeps its meaning for ever, new ones come at the end.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import Final

from fencepost.histograms import LAST
from fencepost.model import ErrorClass
from fencepost.segments import SegmentKind, WaitedFor

WIDTH: Final = LAST + 1
"""A measure's bucket is the cell ``measure * WIDTH + bucket``; below ``WIDTH`` are the reasons."""


class Measure(IntEnum):
    """Whose durations a cell counts."""

    INGEST = 1
    WAITING = 2  # where the end says no reason: an operator ended the wait
    WAITING_WORKER = 3
    WAITING_SLOT = 4
    WAITING_RATE = 5
    WAITING_ORDER = 6
    HELD = 7
    SLEEPING = 8
    PREPARING = 9
    IN_FLIGHT = 10
    PARKED = 11
    TOTAL = 12  # from being received to DELIVERED or DLQ, of deliveries that no operator touched


BY_KIND: Final = MappingProxyType(
    {
        SegmentKind.INGEST: Measure.INGEST,
        SegmentKind.WAITING: Measure.WAITING,
        SegmentKind.HELD: Measure.HELD,
        SegmentKind.SLEEPING: Measure.SLEEPING,
        SegmentKind.PREPARING: Measure.PREPARING,
        SegmentKind.IN_FLIGHT: Measure.IN_FLIGHT,
        SegmentKind.PARKED: Measure.PARKED,
    }
)
"""``fenced`` has none: it is a worker's time, not the delivery's."""

BY_WAIT: Final = MappingProxyType(
    {
        WaitedFor.WORKER: Measure.WAITING_WORKER,
        WaitedFor.SLOT: Measure.WAITING_SLOT,
        WaitedFor.RATE: Measure.WAITING_RATE,
        WaitedFor.ORDER: Measure.WAITING_ORDER,
        WaitedFor.PAUSED: Measure.HELD,
    }
)
"""What a wait is, by what it waited for."""

OTHER_REASON: Final = 0
REASONS: Final = MappingProxyType(
    {
        ErrorClass.DNS: 1,
        ErrorClass.CONNECT: 2,
        ErrorClass.TLS: 3,
        ErrorClass.TIMEOUT: 4,
        ErrorClass.RESET: 5,
        ErrorClass.BAD_RESPONSE: 6,
        ErrorClass.REDIRECT: 7,
        ErrorClass.HTTP_4XX: 8,
        ErrorClass.HTTP_5XX: 9,
        ErrorClass.ADDRESS_FORBIDDEN: 10,
        ErrorClass.INVALID_URL: 11,
        ErrorClass.PAYLOAD_UNDECRYPTABLE: 12,
        ErrorClass.PAYLOAD_ERASED: 13,
        ErrorClass.INVALID_HEADER: 14,
        ErrorClass.KEY_UNAVAILABLE: 15,
        ErrorClass.SUBSCRIPTION_REMOVED: 16,
        ErrorClass.CRASH_LOOP: 17,
        ErrorClass.LEASE_EXPIRED: 18,
        ErrorClass.LOCAL_ERROR: 19,
    }
)
"""The failure with which a delivery entered the DLQ."""
