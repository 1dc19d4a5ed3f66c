"""One head of an answer, from its bytes: what it says, and how its body ends."""

from __future__ import annotations

import http.client
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from worker.transport.bodies import Body, Chunked, Measured, Unmeasured
from worker.transport.heads import (
    BODYLESS,
    HEADER_LINE,
    MAX_LINE_BYTES,
    MAX_LINES,
    MAX_NAME,
    MAX_VALUE,
    SPACE_BEFORE_COLON,
    ends_plainly,
    storable,
)

_STATUS_LINE: Final = re.compile(rb"(HTTP/1\.\S*)[ \t]+([1-9][0-9]{2})(?:[ \t][^\n]*)?\r?")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_MAX_REMEMBERED: Final = 256

_Line = tuple[str, str, str]
"""Of a header: its name in lower case, its name, its value; the last two safe to store."""
_Found = dict[str, list[tuple[str, str]]]

_NO_HEADER: Final = ("", "", "")


@dataclass(slots=True)
class Head:
    """A head that was read whole."""

    status: int
    headers: list[tuple[str, str]]
    """Safe to store; those of one name stand together, where the first of them stood."""
    body: Body
    ends_plainly: bool
    """Whether the next answer on this connection begins beyond doubt after this one."""

    @property
    def is_interim(self) -> bool:
        """Whether the answer is still to come; 101 is one, nothing was asked to be upgraded."""
        return self.status < 200 and self.status != http.client.SWITCHING_PROTOCOLS  # noqa: PLR2004


def read_status_line(line: bytes) -> tuple[bytes, int]:
    """Give version and status.

    Raises:
        http.client.BadStatusLine: it is no status line of HTTP/1.
    """
    found = _STATUS_LINE.fullmatch(line)
    if found is None:
        raise http.client.BadStatusLine(line[:100].decode("latin-1"))
    return found[1], int(found[2])


def read_head(raw: bytes) -> Head:
    """Read a head without the empty line that ends it.

    It is judged as ``http.client`` and urllib3 judge it, lenient wherever that is harmless.

    Raises:
        http.client.HTTPException: it makes no sense.
    """
    status_line, *lines = raw.split(b"\n")
    version, status = read_status_line(status_line)
    found = _headers(lines)
    length, coding = _joined(found, "content-length"), _joined(found, "transfer-encoding")
    return Head(
        status=status,
        headers=[header for same in found.values() for header in same],
        body=_body(status, length, coding),
        ends_plainly=ends_plainly(status, length=length, coding=coding)
        and not _closes(version, found),
    )


def _headers(lines: list[bytes]) -> _Found:
    """Group headers by name: folded lines joined, lines that are no headers passed over."""
    if len(lines) > MAX_LINES:
        raise http.client.HTTPException(f"got more than {MAX_LINES} headers")
    found: _Found = {}
    last: list[tuple[str, str]] = []
    for line in lines:
        if len(line) <= _MAX_REMEMBERED:
            key, name, value = _remembered_line(line)
        elif len(line) <= MAX_LINE_BYTES:
            key, name, value = _read_line(line)
        else:
            raise http.client.LineTooLong("header line")
        if key:
            last = found.setdefault(key, [])
            last.append((name, value))
        elif value and last:
            name, before = last[-1]
            last[-1] = name, f"{before} {value}"[:MAX_VALUE]
    return found


def _read_line(line: bytes) -> _Line:
    """Give a header, a folded line as a value without a name, or nothing at all."""
    if not HEADER_LINE.match(line):
        line = SPACE_BEFORE_COLON.sub(rb"\1:", line)
        if not HEADER_LINE.match(line):
            return _NO_HEADER
    if line[:1] in {b" ", b"\t"}:
        return "", "", storable(line.strip(), MAX_VALUE)
    raw_name, _, raw_value = line.partition(b":")
    name = storable(raw_name, MAX_NAME)
    return name.lower(), name, storable(raw_value.strip(), MAX_VALUE)


# Most of a receiver's headers are the same in each of its answers.
_remembered_line = lru_cache(maxsize=4096)(_read_line)


def _joined(found: _Found, name: str) -> str | None:
    same = found.get(name)
    if same is None:
        return None
    return same[0][1] if len(same) == 1 else ", ".join(value for _, value in same)


def _body(status: int, length: str | None, coding: str | None) -> Body:
    if status in BODYLESS or status < 200:  # noqa: PLR2004
        return Measured(0)
    if coding is not None and coding.lower() == "chunked":
        return Chunked()
    if length is None:
        return Unmeasured()
    lengths = {part.strip() for part in length.split(",")}
    if not all(map(_LENGTH.fullmatch, lengths)):
        return Unmeasured()
    if len(set(map(int, lengths))) > 1:
        raise http.client.HTTPException(f"several lengths at once: {length}")
    return Measured(int(lengths.pop()))


def _closes(version: bytes, found: _Found) -> bool:
    connection = (_joined(found, "connection") or "").lower()
    if version == b"HTTP/1.0":
        return "keep-alive" not in connection
    return "close" in connection
