"""Reading an answer from bytes as they come, for a transport that never blocks."""

from __future__ import annotations

import errno
import http.client
import re
from typing import Final

from worker.transport.answer_heads import Head, read_head, read_status_line
from worker.transport.base import MAX_BODY_KEPT, MAX_BODY_READ
from worker.transport.heads import MAX_HEAD_BYTES, MAX_LINE_BYTES

_HEAD_END: Final = re.compile(rb"\n\r?\n")
_EMPTY_LINE: Final = re.compile(rb"\r?\n")


class AnswerReader:
    """One answer, interim ones passed over; it is fed, and never reads by itself.

    It raises what ``http.client`` raises for the other transport, so that the same words
    describe the same answers.

    Attributes:
        head: of the final answer, once it is whole.
        status_seen: of the status line that was read last, whole head or not.
        body: the first bytes of the body, as many as are kept.
        size: how many bytes of the body were read.
        is_whole: the answer was read to its end.
    """

    def __init__(self) -> None:
        self.head: Head | None = None
        self.status_seen: int | None = None
        self.body = b""
        self.size = 0
        self.is_whole = False
        self._unread: bytes | bytearray = b""
        self._searched = 0
        self._head_bytes = 0

    @property
    def has_begun(self) -> bool:
        """Whether a byte of an answer has come."""
        return bool(self._unread or self._head_bytes)

    @property
    def is_enough(self) -> bool:
        """Whether nothing more of it is wanted."""
        return self.is_whole or self.size >= MAX_BODY_READ

    @property
    def may_be_followed(self) -> bool:
        """Whether the connection is clean: the answer ended, beyond doubt, and nothing after it."""
        head = self.head
        return self.is_whole and head is not None and head.ends_plainly and not head.body.excess

    def feed(self, data: bytes) -> None:
        """Take what has come.

        Raises:
            http.client.HTTPException: it is no HTTP answer, or its body is not framed as it says.
        """
        if self.head is None:
            data = self._read_heads(data)
            if self.head is None:
                return
        body = self.head.body
        if body.is_over:
            body.excess += data
        elif data:
            for piece in body.feed(data):
                self._keep(piece)
        self.is_whole = body.is_over

    def end(self) -> None:
        """Take the end of the stream.

        Raises:
            http.client.HTTPException, ConnectionResetError: it came before that of the answer.
        """
        if not self.has_begun:
            raise http.client.RemoteDisconnected("no answer")
        if self.head is None:
            raise ConnectionResetError(errno.ECONNRESET, "the head of the answer was cut off")
        if not self.is_whole and not self.head.body.ends_with_connection:
            raise http.client.IncompleteRead(b"")
        self.is_whole = True

    def _read_heads(self, data: bytes) -> bytes:
        """Read heads until one is final; give what follows it."""
        raw: bytes | bytearray = data
        if self._unread:
            raw = bytearray(self._unread) if isinstance(self._unread, bytes) else self._unread
            raw += data
        while True:
            end = _HEAD_END.search(raw, max(0, self._searched - 2)) or _EMPTY_LINE.match(raw)
            if end is None:
                break
            self._count(end.end())
            head = read_head(bytes(raw[: end.start()]))
            raw, self._searched = raw[end.end() :], 0
            if not head.is_interim:
                self.head, self.status_seen, self._unread = head, head.status, b""
                return bytes(raw)
            self.status_seen = None
        self._unread, self._searched = raw, len(raw)
        self._check_unread(raw)
        return b""

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            raise http.client.LineTooLong("head")

    def _check_unread(self, raw: bytes | bytearray) -> None:
        """Refuse what cannot become a head any more, without waiting for its end."""
        if self._head_bytes + len(raw) > MAX_HEAD_BYTES:
            raise http.client.LineTooLong("head")
        if self.status_seen is None:
            line_end = raw.find(b"\n", 0, MAX_LINE_BYTES)
            if line_end >= 0:
                _, self.status_seen = read_status_line(bytes(raw[:line_end]))
            elif len(raw) > MAX_LINE_BYTES:
                raise http.client.LineTooLong("status line")

    def _keep(self, piece: bytes) -> None:
        self.size = min(self.size + len(piece), MAX_BODY_READ)
        if len(self.body) < MAX_BODY_KEPT:
            self.body += piece[: MAX_BODY_KEPT - len(self.body)]
