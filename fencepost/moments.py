"""How moments are written for people: one form for pages, commands and messages."""

from __future__ import annotations

from datetime import UTC, datetime


def format_moment(moment: datetime) -> str:
    """Write ``2026-11-30 16:53:20.123Z``: RFC 3339 with a space, in UTC, to the millisecond.

    Args:
        moment: aware.
    """
    text = moment.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds")
    return text.replace("+00:00", "Z")
