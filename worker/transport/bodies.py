"""Where the body of an answer ends: by a length, by chunks, or with the connection."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from typing import Final, Protocol

from worker.transport.heads import MAX_HEAD_BYTES, MAX_LINE_BYTES

_CHUNK_SIZE: Final = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\n]*)?\r?")


class Body(Protocol):
    """Tells a body from what frames it and what follows it.

    Attributes:
        is_over: its end has come.
        excess: what came after its end.
        ends_with_connection: the end of the stream is its end.
    """

    is_over: bool
    excess: bytes
    ends_with_connection: bool

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Give the pieces of the body that ``data`` holds.

        Raises:
            http.client.HTTPException: its framing makes no sense; what was given before stands.
        """


class Measured:
    """A body of a known length, which may be none."""

    ends_with_connection = False

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_over = length == 0
        self.excess = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Give it up to its length."""
        piece, self.excess = data[: self._left], data[self._left :]
        self._left -= len(piece)
        self.is_over = self._left == 0
        if piece:
            yield piece


class Unmeasured:
    """A body that lasts as long as its connection."""

    is_over = False
    excess = b""
    ends_with_connection = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Give all of it."""
        yield data


class Chunked:
    """A body in chunks, each with its size before it, and trailers after the last."""

    ends_with_connection = False

    def __init__(self) -> None:
        self.is_over = False
        self.excess = b""
        self._line = b""
        self._left = 0
        self._is_after_data = False
        self._is_in_trailers = False
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Give what the chunks hold; extensions and trailers are passed over."""
        at = 0
        while at < len(data) and not self.is_over:
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
                at += len(piece)
                yield piece
                continue
            end = data.find(b"\n", at)
            stop = len(data) if end < 0 else end + 1
            self._line += data[at:stop]
            at = stop
            if len(self._line) > MAX_LINE_BYTES:
                raise http.client.LineTooLong("chunk size")
            if end >= 0:
                line, self._line = self._line[:-1], b""
                self._take_line(line)
        if self.is_over:
            self.excess = data[at:]

    def _take_line(self, line: bytes) -> None:
        if self._is_in_trailers:
            self._trailer_bytes += len(line) + 1
            if self._trailer_bytes > MAX_HEAD_BYTES:
                raise http.client.LineTooLong("trailers")
            self.is_over = line in {b"", b"\r"}
        elif self._is_after_data:
            self._is_after_data = False
            if line.strip():
                raise http.client.IncompleteRead(b"")
        else:
            size = _CHUNK_SIZE.fullmatch(line)
            if size is None:
                raise http.client.IncompleteRead(b"")
            self._left = int(size[1], 16)
            self._is_after_data = bool(self._left)
            self._is_in_trailers = not self._left
