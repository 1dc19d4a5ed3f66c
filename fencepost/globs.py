"""Globs over event types: the one wildcard is ``*``, and it crosses dots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from fencepost.errors import InvalidInputError

LONGEST: Final = 128
"""Characters: as long as an event type may be."""

_GLOB: Final = re.compile(r"[A-Za-z0-9_*]+(\.[A-Za-z0-9_*]+)*")


def check_globs(values: Sequence[object], *, field: str, most: int) -> tuple[str, ...]:
    """Accept a list of globs, without its repetitions.

    Args:
        values: an event type, in which any run of characters may be written as ``*``.
        field: what the user calls the list.
        most: how many are accepted.

    Raises:
        InvalidInputError: one is not a glob, or there are too many.
    """
    if len(values) > most:
        raise InvalidInputError(field, f"{field}: at most {most} event types")
    for value in values:
        if not isinstance(value, str) or len(value) > LONGEST or not _GLOB.fullmatch(value):
            raise InvalidInputError(
                field,
                f"{field}: each must be an event type such as invoice.paid, at most {LONGEST}"
                " letters, digits, _ and dots, with * for any run of characters",
            )
    return tuple(dict.fromkeys(str(value) for value in values))


def to_like(glob: str) -> str:
    r"""Write a glob as a LIKE pattern: ``a_b.*`` becomes ``a\_b.%``.

    That ``*`` never means our own ``fencepost.*`` events is the fan-out's rule, not the pattern's.
    """
    return re.sub(r"\*+", "%", glob.replace("_", r"\_"))
