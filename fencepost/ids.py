"""Ids that sort by the time they were made."""

from __future__ import annotations

from typing import Final
from uuid import UUID

RANDOM_BYTES: Final = 10


def uuid7(unix_ms: int, random: bytes) -> UUID:
    """Make a UUIDv7: 48 bits of milliseconds, then chance.

    Args:
        unix_ms: milliseconds since 1970.
        random: ten random bytes, of which six bits make room for version and variant.

    Source: RFC 9562 section 5.7.
    """
    raw = bytearray(unix_ms.to_bytes(6, "big") + random)
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    return UUID(bytes=bytes(raw))
