"""What comes back for a call: read as far as it is wanted, and the reply that it makes."""

from __future__ import annotations

from typing import Final

from fencepost.model import Reply
from worker.transport.answer_reader import AnswerReader
from worker.transport.base import MAX_BODY_READ
from worker.transport.calls import Call, Phase
from worker.transport.deadlines import CutShortError
from worker.transport.faults import judge, say_cut
from worker.transport.heads import MAX_HEADERS_KEPT

_PIECE: Final = 16 * 1024


class Answer:
    """The answer to one call, whichever transport takes it in.

    Attributes:
        failure: why no more of it will come; None: nothing went wrong.
    """

    def __init__(self, call: Call) -> None:
        self.failure: BaseException | None = None
        self._call = call
        self._reader = AnswerReader()

    @property
    def status(self) -> int | None:
        """What the status line said, once its head is whole."""
        return None if self._reader.head is None else self._reader.head.status

    @property
    def is_enough(self) -> bool:
        """Whether nothing more of it is wanted."""
        return self._reader.is_enough

    @property
    def wanted(self) -> int:
        """How many bytes to read next, at most."""
        return min(_PIECE, MAX_BODY_READ - self._reader.size)

    @property
    def may_be_followed(self) -> bool:
        """Whether the next request may be sent on its connection."""
        is_undisturbed = self._call.cut is None and self.failure is None
        return is_undisturbed and self._reader.may_be_followed

    def take(self, data: bytes) -> None:
        """Take what has come; nothing: the end of the stream.

        Raises:
            http.client.HTTPException, ConnectionResetError: it is no answer, or not a whole one.
        """
        call, reader = self._call, self._reader
        if not data:
            reader.end()
            return
        if not reader.has_begun:
            if call.phase is Phase.SEND:
                call.enter(Phase.HEAD)
            call.measure("first_byte_ms")
        try:
            reader.feed(data)
        finally:
            call.status_seen = reader.status_seen
            if reader.head is not None and call.phase is not Phase.BODY:
                call.enter(Phase.BODY)

    def reply(self) -> Reply:
        """Say what it came to: the status line decides, whatever became of the body."""
        call, reader, failure = self._call, self._reader, self.failure
        if reader.head is None:
            return failed(call, failure)
        message = None
        if call.cut is not None:
            message = say_cut(call, call.cut)
        elif failure is not None:
            message = judge(call, failure)[1]
        is_whole = reader.is_whole and message is None
        return Reply(
            reader.head.status,
            message=message,
            headers=tuple(reader.head.headers[:MAX_HEADERS_KEPT]),
            body=reader.body,
            body_truncated=reader.size > len(reader.body) or not is_whole,
            latency_ms=call.elapsed_ms(),
            detail=call.detail,
        )


def failed(call: Call, failure: BaseException | None) -> Reply:
    """Say what became of a request to which no status line came."""
    kind, message = judge(call, failure or CutShortError())
    return Reply(None, kind, message, latency_ms=call.elapsed_ms(), detail=call.detail)
