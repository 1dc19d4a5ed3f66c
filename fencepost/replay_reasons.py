"""Why deliveries that a bulk replay matches cannot be sent again, for pages and commands."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "replayed": "already being replayed",
        "held": "in a worker's hands",
        "waiting": "still before their first attempt",
        "erased": "payload erased",
        "removed": "subscription removed",
        "discarded": "discarded",
    }
)


def in_words(not_eligible: Mapping[str, int]) -> str:
    """Say how many for which reason, the most frequent first: ``7 payload erased, 2 discarded``."""
    by_number = sorted(not_eligible.items(), key=lambda item: -item[1])
    return ", ".join(f"{number:,} {REASONS[reason]}" for reason, number in by_number)
