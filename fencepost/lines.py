"""One line of text that a person wrote: a name, a reason."""

from __future__ import annotations

import unicodedata
from typing import Final

from fencepost.errors import InvalidInputError

_REORDERING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Unicode's bidirectional controls: with them a text reads as something that it is not."""


def check_line(value: object, *, field: str, longest: int) -> str:
    """Accept a line, with every run of white space turned into one space.

    Args:
        value: what was given.
        field: what the user calls it.
        longest: in characters.

    Raises:
        InvalidInputError: it is empty, too long, or has control characters in it.
    """
    if not isinstance(value, str):
        raise InvalidInputError(field, f"{field} must be text")
    line = " ".join(value.split())
    # Cc: control, Cs: half of a surrogate pair, which PostgreSQL cannot store.
    if _REORDERING & set(line) or {"Cc", "Cs"} & set(map(unicodedata.category, line)):
        raise InvalidInputError(field, f"{field} must not contain control characters")
    if not line:
        raise InvalidInputError(field, f"{field} must not be empty")
    if len(line) > longest:
        raise InvalidInputError(field, f"{field} must be at most {longest} characters long")
    return line
