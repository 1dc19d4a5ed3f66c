"""Opening a connection: one look-up, every address checked, then dialled as a number."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, cast

from worker.local_faults import LocalFaultError, is_local_fault
from worker.resolver import Resolver
from worker.transport.calls import Phase
from worker.transport.deadlines import SocketCall

MAX_DIALLED: Final = 4
"""Addresses of one name that are tried."""

_here = threading.local()


@contextmanager
def performing(call: SocketCall) -> Iterator[None]:
    """Say which call this thread performs: urllib3 has no way to hand it down to its sockets."""
    _here.call = call
    try:
        yield
    finally:
        del _here.call


def current() -> SocketCall:
    """Give the call that this thread performs."""
    return cast("SocketCall", _here.call)


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

    def dial(self, host: str, port: int) -> tuple[socket.socket, str]:
        """Connect the current call; give the socket and the address it reached.

        Raises:
            LookupFailedError, AddressForbiddenError: as the resolver says.
            ConnectFailedError: no address answered.
            LocalFaultError: this machine is out of something.
            CutShortError: time is up, or the lease lost.
        """
        call = current()
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
                return _connect(call, address, port, share), address
            except OSError as error:
                if is_local_fault(error):
                    raise LocalFaultError(f"no connection could be opened: {error}") from error
                call.check()
                failure = error
        raise connect_failed(str(call.detail["ip"]), port, failure) from failure


def _connect(call: SocketCall, address: str, port: int, timeout: float) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(timeout)
        call.hold(sock)
        sock.connect((address, port))
        call.check()
    except BaseException:
        sock.close()
        raise
    return sock


def connect_failed(ip: str, port: int, failure: OSError | None) -> ConnectFailedError:
    """Say what became of the last address that was dialled; None when it kept silent."""
    timed_out = isinstance(failure, TimeoutError)
    why = "no answer" if timed_out or failure is None else (failure.strerror or str(failure))
    return ConnectFailedError(f"{ip} port {port}: {why}", timed_out=timed_out)
