"""One request and its answer on an open connection, as far as it goes without waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.model import Reply
from worker.transport.answer_reader import AnswerReader
from worker.transport.base import MAX_BODY_READ
from worker.transport.calls import Call, Phase
from worker.transport.curl_connection import CurlConnection
from worker.transport.deadlines import CutShortError
from worker.transport.faults import judge, say_cut
from worker.transport.heads import MAX_HEADERS_KEPT

_PIECE: Final = 16 * 1024


class Exchange:
    """Sends one request, once, and reads what comes back.

    Args:
        call: what it is for.
        connection: nobody else uses it meanwhile.
        request: all of its bytes.
        answered: told that the answer is there, or as much of one as will ever be.
    """

    def __init__(
        self,
        call: Call,
        connection: CurlConnection,
        request: bytes,
        answered: Callable[[Exchange], None],
    ) -> None:
        self.call = call
        self.connection = connection
        self._unsent: bytes | memoryview = request
        self._answered = answered
        self._reader = AnswerReader()
        self._broken: Exception | None = None
        self._failure: BaseException | None = None
        self._is_watching_room = False

    def begin(self) -> None:
        """Send what there is room for; the rest happens as the connection is ready."""
        self.call.enter(Phase.SEND)
        self.connection.on_ready = self._go_on
        self._go_on(is_first=True)

    @property
    def leaves_connection_clean(self) -> bool:
        """Whether the next request may be sent on it."""
        is_undisturbed = self.call.cut is None and self._failure is None and not self._unsent
        return is_undisturbed and self._reader.may_be_followed

    def reply(self) -> Reply:
        """Say what it came to: the status line decides, whatever became of the body."""
        call, reader, failure = self.call, self._reader, self._failure
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

    def _go_on(self, *, is_first: bool = False) -> None:
        """Send what is left, read what has come; nothing may escape: a lease hangs on it."""
        try:
            if self._unsent:
                self._send()
            if not is_first or self._broken is not None:
                self._read()
            if not self._reader.is_enough:
                return
        except Exception as error:  # noqa: BLE001
            self._failure = error
        self._answered(self)

    def _send(self) -> None:
        try:
            sent = self.connection.send(self._unsent)
        except OSError as error:
            # The receiver may have answered, and closed, before it had read everything.
            self._broken = error
            self._watch_room(wanted=False)
            return
        if sent < len(self._unsent):
            # The same bytes at the same place: TLS insists on it when it has to be called again.
            self._unsent = memoryview(self._unsent)[sent:]
            self._watch_room(wanted=True)
            return
        self._unsent = b""
        self._watch_room(wanted=False)
        self.call.enter(Phase.HEAD)

    def _watch_room(self, *, wanted: bool) -> None:
        if self._is_watching_room is not wanted:
            self._is_watching_room = wanted
            self.connection.watch(writing=wanted)

    def _read(self) -> None:
        reader = self._reader
        while not reader.is_enough:
            data = self.connection.receive(min(_PIECE, MAX_BODY_READ - reader.size))
            if data is None:
                if self._broken is not None:
                    raise self._broken
                return
            self._take(data)
            if not self.connection.is_tls:  # whose library may hold more than the socket shows
                return

    def _take(self, data: bytes) -> None:
        call, reader = self.call, self._reader
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


def failed(call: Call, failure: BaseException | None) -> Reply:
    """Say what became of a request to which no status line came."""
    kind, message = judge(call, failure or CutShortError())
    return Reply(None, kind, message, latency_ms=call.elapsed_ms(), detail=call.detail)
