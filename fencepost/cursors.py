"""Places in a list, and the signed text in which they travel through a browser."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar
from uuid import UUID

from fencepost.errors import InvalidInputError

Row = TypeVar("Row")

_MAC_BYTES: Final = 16
_LONGEST: Final = 400


@dataclass(frozen=True, slots=True)
class Position:
    """The sort key of a row: a list continues right after it, or right before it."""

    id: UUID | int
    at: datetime | None = None
    """Aware; only in lists that are sorted by a moment first."""


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """A part of a list, in the list's own order.

    Attributes:
        rows: what is on the page.
        next: where the following page starts, for ``after``; None at the end.
        prev: where the page before it ends, for ``before``; None at the start.
    """

    rows: Sequence[Row]
    next: Position | None
    prev: Position | None


class Cursors:
    """Write and read positions as opaque text that only this installation can have made.

    Args:
        secret: ``settings.secret()``.
    """

    def __init__(self, secret: bytes) -> None:
        self._key: Final = hmac.digest(secret, b"fencepost.cursor.v1", "sha256")

    def write(self, position: Position | None, *, scope: str) -> str | None:
        """Give the text of a position; None for None.

        Args:
            position: from a ``Page``.
            scope: what the list is of, e.g. ``filter.fingerprint()``: it is good for no other.
        """
        if position is None:
            return None
        key = position.id if isinstance(position.id, int) else str(position.id)
        at = None if position.at is None else position.at.astimezone(UTC).isoformat()
        data = json.dumps([key, at], separators=(",", ":")).encode()
        return _encode(self._mac(data, scope) + data)

    def read(self, text: str | None, *, scope: str, field: str) -> Position | None:
        """Read what ``write`` gave; None for None.

        Args:
            text: as it came back.
            scope: of the list that is asked for now.
            field: the parameter it came in, ``after`` or ``before``.

        Raises:
            InvalidInputError: it was altered, or belongs to a list with another filter.
        """
        if text is None:
            return None
        blob = _decode(text)
        data = blob[_MAC_BYTES:]
        if not hmac.compare_digest(blob[:_MAC_BYTES], self._mac(data, scope)):
            raise InvalidInputError(
                field, f"{field} is not a cursor of this list with these filters; leave it out"
            )
        key, at = json.loads(data)
        return Position(
            key if isinstance(key, int) else UUID(key),
            None if at is None else datetime.fromisoformat(at),
        )

    def _mac(self, data: bytes, scope: str) -> bytes:
        scoped = len(scope.encode()).to_bytes(4) + scope.encode() + data
        return hmac.digest(self._key, scoped, "sha256")[:_MAC_BYTES]


def _encode(blob: bytes) -> str:
    return base64.urlsafe_b64encode(blob).decode().rstrip("=")


def _decode(text: str) -> bytes:
    """Give the bytes, or none at all for what ``_encode`` does not write."""
    if len(text) > _LONGEST or not text.isascii():
        return b""
    try:
        blob = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return b""
    return blob if _encode(blob) == text else b""
