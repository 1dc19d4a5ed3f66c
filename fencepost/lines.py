"""One line of text that a person wrote: a name, a reason."""

from __future__ import annotations

import unicodedata

from fencepost.errors import InvalidInputError


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
    if any(unicodedata.category(letter) in {"Cc", "Cs"} for letter in line):
        raise InvalidInputError(field, f"{field} must not contain control characters")
    if not line:
        raise InvalidInputError(field, f"{field} must not be empty")
    if len(line) > longest:
        raise InvalidInputError(field, f"{field} must be at most {longest} characters long")
    return line
