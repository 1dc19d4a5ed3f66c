"""What every transport says about the head of an answer: its limits, its end, what is stored."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from fencepost.outcomes import clean_bytes

MAX_HEAD_BYTES: Final = 256 * 1024
"""Of all heads of one answer together, interim ones included."""
MAX_LINE_BYTES: Final = 64 * 1024
MAX_LINES: Final = 100
"""Headers of one head; more are not an answer."""

HEADER_LINE: Final = re.compile(rb"[!-9;-~]+:|[ \t]")
"""How a header begins, or goes on; other lines are passed over, and hide none that follow."""
SPACE_BEFORE_COLON: Final = re.compile(rb"\A([!-9;-~]+)[ \t]+:")

MAX_HEADERS_KEPT: Final = 100
MAX_NAME: Final = 100
MAX_VALUE: Final = 1000

BODYLESS: Final = frozenset(map(int, (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)))
"""Whatever their heads say."""
_NEVER_PLAIN: Final = frozenset(
    map(int, (HTTPStatus.SWITCHING_PROTOCOLS, HTTPStatus.RESET_CONTENT))
)

_DIGITS: Final = re.compile(r"[0-9]+")


def ends_plainly(status: int, *, length: str | None, coding: str | None) -> bool:
    """Say whether it is beyond doubt where an answer ends, and so where the next one begins.

    Args:
        status: of the final answer.
        length: its Content-Length, several joined by commas.
        coding: its Transfer-Encoding, likewise.
    """
    if status in _NEVER_PLAIN:
        return False
    if status in BODYLESS:
        return coding is None and length in {None, "0"}
    if coding is not None:
        return length is None and coding.lower() == "chunked"
    return length is not None and _DIGITS.fullmatch(length) is not None


def storable(raw: bytes, limit: int) -> str:
    """Give a part of a header as text that any column takes: escaped, and cut at ``limit``."""
    if len(raw) <= limit and raw.isascii():
        text = raw.decode("ascii")
        if text.isprintable():
            return text
    return clean_bytes(raw, limit=limit)
