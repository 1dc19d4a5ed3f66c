"""Bytes as a page shows them: text where they are text, hex where they are not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_MOST_HEX: Final = 4096
_LINE: Final = 16
_PRINTABLE: Final = range(0x20, 0x7F)


@dataclass(frozen=True, slots=True)
class Content:
    """A body, ready to be looked at.

    Attributes:
        size: in bytes.
        sha256: of the bytes, in hex.
        text: the bytes as they are; None where they are no text.
        pretty: the same JSON, indented; None where that would not give the same bytes back.
        hex: a dump of the beginning; None for text.
        is_cut: the dump stops before the end.
    """

    size: int
    sha256: str
    text: str | None
    pretty: str | None
    hex: str | None
    is_cut: bool

    @property
    def fits_a_command(self) -> bool:
        """Whether a page can hand it to a shell unchanged: HTML turns a carriage return around."""
        return self.text is not None and "\r" not in self.text


def read_content(data: bytes) -> Content:
    """Look at bytes; nothing is decoded that is not UTF-8, nothing is rewritten."""
    text = _as_text(data)
    return Content(
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        text=text,
        pretty=None if text is None else _pretty(text),
        hex=None if text is not None else "\n".join(_dump(data[:_MOST_HEX])),
        is_cut=text is None and len(data) > _MOST_HEX,
    )


def _as_text(data: bytes) -> str | None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if all(char.isprintable() or char in "\n\r\t" for char in text) else None


def _pretty(text: str) -> str | None:
    """Indent JSON, if its numbers, keys and escapes all survive being read and written."""
    try:
        value = json.loads(text)
        written = {
            json.dumps(value, ensure_ascii=ascii_, separators=separators)
            for ascii_ in (False, True)
            for separators in ((",", ":"), (", ", ": "))
        }
    except (ValueError, RecursionError):
        return None
    if text.strip() not in written:
        return None
    shown = json.dumps(value, ensure_ascii=False, indent=2)
    return shown if "\n" in shown else None


def _dump(data: bytes) -> Iterator[str]:
    """Write lines of an offset, sixteen bytes and what is printable of them."""
    for at in range(0, len(data), _LINE):
        line = data[at : at + _LINE]
        pairs = " ".join(f"{byte:02x}" for byte in line)
        shown = "".join(chr(byte) if byte in _PRINTABLE else "." for byte in line)
        yield f"{at:08x}  {pairs:<{3 * _LINE - 1}}  {shown}"
