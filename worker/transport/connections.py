"""Connections of the requests transport: dialled as numbers, secured by name, cut by others."""

from __future__ import annotations

import socket
import ssl
import time
from typing import Any, cast

from urllib3.connection import HTTPConnection, HTTPSConnection

from fencepost.endpoints import Endpoint
from worker.transport.answers import Answer
from worker.transport.calls import Phase
from worker.transport.deadlines import Cutoff, SocketCall
from worker.transport.dialling import Dialler
from worker.transport.keepalive import Origin


class GuardedConnection(HTTPConnection):
    """A connection that urllib3 opens, to where we dial, and on which the bytes are ours.

    Args:
        endpoint: where it goes.
        dialler: looks its host up, judges the addresses and connects.
        options: urllib3's.

    Attributes:
        ip: where it leads.
        opened_at: when it was open.
        is_clean: the next request may be sent on it.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        dialler: Dialler,
        **options: Any,  # noqa: ANN401 - urllib3's
    ) -> None:
        super().__init__(endpoint.host, endpoint.port, **options)
        self.ip = ""
        self.opened_at = 0.0
        self.is_clean = False
        self.origin: Origin = endpoint.scheme, endpoint.host, endpoint.port
        self._dialler = dialler
        self._call: SocketCall | None = None
        self._cutoff: Cutoff | None = None

    def open(self, call: SocketCall) -> None:
        """Connect, for a call.

        Raises:
            LookupFailedError, AddressForbiddenError, ConnectFailedError, CutShortError: as dialled.
            OSError, urllib3.exceptions.HTTPError: TLS could not be agreed on.
        """
        self._call = call
        self.connect()
        self._call = None
        call.connected()
        if isinstance(self.sock, ssl.SSLSocket):
            call.enter(Phase.SEND, measured="tls_ms")
        # From here on it is the deadline thread that ends what takes too long; a timeout would
        # have every read and write ask the system first whether it may.
        self.sock.settimeout(None)

    def reopen(self, call: SocketCall) -> None:
        """Use it once more, for another call."""
        call.hold(cast("Cutoff", self._cutoff))

    def exchange(self, call: SocketCall, request: bytes) -> Answer:
        """Send a request, once, and read what comes back; what goes wrong is the answer's."""
        answer = Answer(call)
        is_whole = self.is_clean = False
        call.enter(Phase.SEND)
        try:
            try:
                self.sock.sendall(request)
                is_whole = True
                call.enter(Phase.HEAD)
            except ConnectionError:
                # The receiver may have answered, and closed, before it had read everything.
                pass
            while not answer.is_enough:
                answer.take(self.sock.recv(answer.wanted))
        except Exception as error:  # noqa: BLE001 - it decides what becomes of the call
            answer.failure = error
        call.let_go()
        self.is_clean = is_whole and answer.may_be_followed
        return answer

    @property
    def is_connected(self) -> bool:
        """False when the other side has closed it, or has said something unasked."""
        # What TLS has decrypted and nobody has read shows on no socket.
        return super().is_connected and not (
            isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()
        )

    def close(self) -> None:
        """Give its descriptors back."""
        super().close()
        if self._cutoff is not None:
            self._cutoff.close()

    def _new_conn(self) -> socket.socket:
        call = cast("SocketCall", self._call)
        sock, self._cutoff, self.ip = self._dialler.dial(call, self._dns_host, self.port)
        self.opened_at = time.monotonic()
        call.enter(Phase.TLS, measured="connect_ms")
        return sock


class GuardedTLSConnection(GuardedConnection, HTTPSConnection):
    """The same over TLS; host name, SNI and certificate stay by name."""
