"""Named statements from the ``.sql`` files beside this module."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import LiteralString, cast

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_FOLDER = Path(__file__).parent / "sql"


class Queries:
    """The statements of one file, as attributes.

    A name that the file does not have is an AttributeError.
    """

    def __init__(self, statements: dict[str, LiteralString]) -> None:
        self._statements = statements

    def __getattr__(self, name: str) -> LiteralString:
        try:
            return self._statements[name]
        except KeyError:
            raise AttributeError(name) from None

    def __iter__(self) -> Iterator[tuple[str, LiteralString]]:
        return iter(self._statements.items())


@cache
def load(file: str) -> Queries:
    """Read ``sql/<file>``: each statement follows a line ``-- name: verb_object``.

    Parameters are named, ``%(like_this)s``; a literal percent sign is ``%%``.
    """
    parts = _NAME.split((_FOLDER / file).read_text(encoding="utf-8"))
    names, texts = parts[1::2], parts[2::2]
    if len(set(names)) != len(names):
        raise ValueError(f"{file} names a statement twice")
    # Our own files, never input: what LiteralString asks for.
    return Queries(
        {name: cast("LiteralString", text.strip()) for name, text in zip(names, texts, strict=True)}
    )
