"""Opening a connection: one look-up, every address checked, then dialled as a number."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Final

from worker.local_faults import LocalFaultError, is_local_fault
from worker.resolver import Resolver
from worker.transport.calls import Phase
from worker.transport.deadlines import Cutoff, SocketCall

MAX_DIALLED: Final = 4
"""Addresses of one name that are tried."""


class ConnectFailedError(Exception):
    """None of the addresses took the connection."""

    def __init__(self, message: str, *, timed_out: bool) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class Dialler:
    """Opens connections: one look-up, every address checked, then dialled as a number.

    Args:
        resolver: looks up and judges.
        connect: seconds for the connection and its TLS handshake, over all addresses.
        expect: tells the deadline thread that a call is due earlier now.
    """

    def __init__(
        self, resolver: Resolver, *, connect: float, expect: Callable[[SocketCall], None]
    ) -> None:
        self._resolver = resolver
        self._connect = connect
        self._expect = expect

    def dial(self, call: SocketCall, host: str, port: int) -> tuple[socket.socket, Cutoff, str]:
        """Connect a call; give the socket, what cuts it, and the address it reached.

        Raises:
            LookupFailedError, AddressForbiddenError: as the resolver says.
            ConnectFailedError: no address answered.
            LocalFaultError: this machine is out of something.
            CutShortError: time is up, or the lease lost.
        """
        call.enter(Phase.LOOK_UP)
        addresses = self._resolver.resolve(host, within=call.left())[:MAX_DIALLED]
        call.enter(Phase.CONNECT, measured="dns_ms")
        call.connect_within(self._connect)
        self._expect(call)
        failure: OSError | None = None
        for number, address in enumerate(addresses):
            call.detail["ip"] = address
            try:
                # An address that swallows everything leaves the others their share.
                share = call.left() / (len(addresses) - number)
                return *_connect(call, address, port, share), address
            except OSError as error:
                if is_local_fault(error):
                    raise LocalFaultError(f"no connection could be opened: {error}") from error
                call.check()
                failure = error
        raise connect_failed(str(call.detail["ip"]), port, failure) from failure


def _connect(
    call: SocketCall, address: str, port: int, timeout: float
) -> tuple[socket.socket, Cutoff]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with ExitStack() as undo:
        sock = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(timeout)
        cutoff = undo.enter_context(closing(Cutoff(sock)))
        call.hold(cutoff)
        sock.connect((address, port))
        call.check()
        undo.pop_all()
    return sock, cutoff


def connect_failed(ip: str, port: int, failure: OSError | None) -> ConnectFailedError:
    """Say what became of the last address that was dialled; None when it kept silent."""
    timed_out = isinstance(failure, TimeoutError)
    why = "no answer" if timed_out or failure is None else (failure.strerror or str(failure))
    return ConnectFailedError(f"{ip} port {port}: {why}", timed_out=timed_out)
