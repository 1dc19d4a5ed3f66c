"""Reading the head of an answer: whole, bounded, and the final one."""

from __future__ import annotations

import errno
import http.client
from typing import IO, Any, cast

from urllib3.response import HTTPResponse

from worker.transport.dialling import current
from worker.transport.heads import BODYLESS, HEADER_LINE, MAX_HEAD_BYTES, SPACE_BEFORE_COLON
from worker.transport.heads import ends_plainly as _ends_plainly


class _Heads:
    """The stream while heads are read: bounded, whole, and without what is no header.

    ``http.client`` takes the end of the stream for the end of the headers, and its parser takes
    a line that is no header, with all that follow it, for the body: a Content-Length among them
    would be missed.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._read = 0
        self._is_in_headers = False

    def readline(self, limit: int) -> bytes:
        while True:
            line = self._read_whole_line(limit)
            if not self._is_in_headers:
                self._is_in_headers = bool(line)
                return line
            if not line.strip():
                self._is_in_headers = False
                return line
            line = SPACE_BEFORE_COLON.sub(rb"\1:", line)
            if HEADER_LINE.match(line):
                return line

    def _read_whole_line(self, limit: int) -> bytes:
        line = self._stream.readline(limit)
        if line and not self._read:
            current().measure("first_byte_ms")
        self._read += len(line)
        if self._read > MAX_HEAD_BYTES:
            raise http.client.LineTooLong("head")
        if not line.endswith(b"\n") and len(line) < limit and self._read:
            raise ConnectionResetError(errno.ECONNRESET, "the head of the answer was cut off")
        return line

    def close(self) -> None:
        self._stream.close()


class FinalResponse(http.client.HTTPResponse):
    """A response that begins with the final answer: interim ones (1xx) are passed over.

    ``http.client`` skips 100 only, and takes a 103 for the answer; the real one is then found by
    the next request on that connection. 101 is final: nothing was asked to be upgraded.
    """

    def begin(self) -> None:
        """Read heads until one is final."""
        if self.headers is not None:
            return
        stream = self.fp
        self.fp = cast("Any", _Heads(stream))
        try:
            super().begin()
            while self.status < http.client.OK and self.status != http.client.SWITCHING_PROTOCOLS:
                self.headers = cast("Any", None)
                super().begin()
        finally:
            if self.fp is not None:
                self.fp = stream
        if self.status in BODYLESS:
            # Whatever the head says; a Transfer-Encoding would make it wait for a first chunk.
            self.chunked, self.length = False, 0

    def _read_status(self) -> tuple[str, int, str]:
        version, status, reason = super()._read_status()  # type: ignore[misc]
        current().status_seen = status
        return version, status, reason


def ends_plainly(response: HTTPResponse) -> bool:
    """Say whether it is beyond doubt where an answer ends, and so where the next one begins."""
    return _ends_plainly(
        response.status,
        length=response.headers.get("Content-Length"),
        coding=response.headers.get("Transfer-Encoding"),
    )
