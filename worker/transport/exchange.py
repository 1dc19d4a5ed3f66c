"""One request and its answer on an open connection, as far as it goes without waiting."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.model import Reply
from worker.transport.answers import Answer
from worker.transport.calls import Call, Phase
from worker.transport.curl_connection import CurlConnection


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
        self._answer = Answer(call)
        self._broken: Exception | None = None
        self._is_watching_room = False

    def begin(self) -> None:
        """Send what there is room for; the rest happens as the connection is ready."""
        self.call.enter(Phase.SEND)
        self.connection.on_ready = self._go_on
        self._go_on(is_first=True)

    @property
    def leaves_connection_clean(self) -> bool:
        """Whether the next request may be sent on it."""
        return not self._unsent and self._answer.may_be_followed

    def reply(self) -> Reply:
        """Say what it came to."""
        return self._answer.reply()

    def _go_on(self, *, is_first: bool = False) -> None:
        """Send what is left, read what has come; nothing may escape: a lease hangs on it."""
        try:
            if self._unsent:
                self._send()
            if not is_first or self._broken is not None:
                self._read()
            if not self._answer.is_enough:
                return
        except Exception as error:  # noqa: BLE001
            self._answer.failure = error
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
        while not self._answer.is_enough:
            data = self.connection.receive(self._answer.wanted)
            if data is None:
                if self._broken is not None:
                    raise self._broken
                return
            self._answer.take(data)
            if not self.connection.is_tls:  # whose library may hold more than the socket shows
                return
