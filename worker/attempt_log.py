"""One wide line for each attempt, written with those of its batch.

Most of what a line costs is paid for the record, whatever it says.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from fencepost.store.settlements import Settlement
from worker.judge import InFlight

log = logging.getLogger(__name__)


class Lines(list[str]):
    """What a record says on several lines, each of which stands for itself."""

    def __str__(self) -> str:
        return "\n".join(self)


class LineFormatter(logging.Formatter):
    """Gives each of a record's ``Lines`` its time and level, as if it had been logged alone."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Format as usual; ``Lines`` one by one."""
        if not isinstance(record.msg, Lines):
            return super().format(record)
        head = f"{self.formatTime(record)} {record.levelname} "
        return "\n".join([head + line for line in record.msg])


class AttemptLog:
    """Collects the lines of attempts that have ended, from any thread."""

    def __init__(self) -> None:
        self._lines: Final[deque[str]] = deque()

    def note(self, flight: InFlight, settlement: Settlement) -> None:
        """Keep a line until the next ``write``; no URL path, payload or secret is in it."""
        claimed = flight.prepared.claimed
        lease = claimed.lease
        self._lines.append(
            f"delivery.attempted delivery={lease.delivery_id} event={claimed.event_id}"
            f" type={claimed.event_type} subscription={claimed.subscription_id}"
            f" attempt={flight.attempted.attempt_count} token={lease.fencing_token}"
            f" cause={settlement.cause} status={settlement.status} error={settlement.error}"
            f" latency_ms={settlement.latency_ms} lost={settlement.was_aborted}"
        )

    def write(self) -> None:
        """Write what there is by now, as one record."""
        lines = Lines()
        while self._lines:
            lines.append(self._lines.popleft())
        if lines:
            log.info(lines)
