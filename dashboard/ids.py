"""Ids in addresses: one in a path, and a page's worth of them in a short parameter."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from fencepost.errors import InvalidInputError, NotFoundError
from fencepost.filter_values import parse_id

_MOST: Final = 100
_WIDTH: Final = 22  # 16 bytes in base64 without padding


def read_id(text: str, thing: str) -> UUID:
    """Read the id in a path.

    Raises:
        NotFoundError: it is no id, so there is no such thing either.
    """
    found = parse_id(text)
    if found is None:
        raise NotFoundError(f"There is no {thing} {text[:80]}.")
    return found


def read_attempt_number(text: str) -> int:
    """Read the number of an attempt in a path.

    Raises:
        NotFoundError: it is no number that an attempt could have.
    """
    if not (text.isascii() and text.isdecimal() and len(text) < 10):  # noqa: PLR2004
        raise NotFoundError(f"There is no attempt {text[:80]}.")
    return int(text)


def pack_ids(ids: Iterable[UUID]) -> str:
    """Write ids close together: a hundred fit into a request line."""
    return "".join(base64.urlsafe_b64encode(each.bytes).decode()[:_WIDTH] for each in ids)


def unpack_ids(text: str) -> list[UUID]:
    """Read what ``pack_ids`` wrote; InvalidInputError for anything else."""
    parts = [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
    try:
        if len(parts) > _MOST:
            parts = [""]  # no id
        return [
            UUID(bytes=base64.b64decode(part + "==", altchars=b"-_", validate=True))
            for part in parts
        ]
    except (ValueError, binascii.Error) as error:
        raise InvalidInputError("ids", "these are not the ids of a page") from error
