"""A connection that libcurl dials and secures, and on which the bytes are ours."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pycurl

from fencepost.egress import Network, refusal
from fencepost.endpoints import Endpoint
from worker.local_faults import LocalFaultError, is_local_fault
from worker.resolver import AddressForbiddenError
from worker.transport.curl_faults import exchange_fault, opening_fault
from worker.transport.curl_handles import CurlHandles
from worker.transport.curl_loop import Act, CurlLoop
from worker.transport.keepalive import Origin

_BACKSTOP_MS: Final = 1000
_NO_SOCKET: Final[int] = pycurl.SOCKET_BAD


@dataclass(frozen=True, slots=True)
class Means:
    """What it takes to open connections."""

    loop: CurlLoop
    handles: CurlHandles
    allow_networks: tuple[Network, ...]
    """Exemptions from the address ban."""


class CurlConnection:
    """One connection, which begins to be opened; closed once and for all by ``close``.

    Args:
        means: what it takes.
        endpoint: Host, SNI and the certificate's name are its.
        ip: where it is dialled.
        within: seconds after which libcurl gives up; a backstop, whoever opens it watches.
        opened: told when it is open, or why it is not; ``close`` it in either case.

    Attributes:
        ip: where it leads.
        opened_at: when it was open.
        on_ready: what it is used for; None while it waits for its next use.
    """

    def __init__(
        self,
        means: Means,
        endpoint: Endpoint,
        ip: str,
        *,
        within: float,
        opened: Callable[[Exception | None], None],
    ) -> None:
        self.ip = ip
        self.opened_at = 0.0
        self.origin: Origin = endpoint.scheme, endpoint.host, endpoint.port
        self.is_tls = endpoint.scheme == "https"
        self.on_ready: Act | None = None
        self._means = means
        self._opened: Callable[[Exception | None], None] | None = opened
        self._fault: Exception | None = None
        self._has_failed = False
        self._fd = -1
        self._poll = select.poll()
        handle = self._handle = means.handles.take()
        self._is_closed = False
        shown = f"[{ip}]" if ":" in ip else ip
        handle.setopt(pycurl.URL, endpoint.origin)
        handle.setopt(pycurl.CONNECT_TO, [f"::{shown}:{endpoint.port}"])
        handle.setopt(pycurl.CONNECTTIMEOUT_MS, round(within * 1000) + _BACKSTOP_MS)
        handle.setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)
        means.loop.open(handle, self._was_opened)

    @property
    def is_agreeing_on_tls(self) -> bool:
        """Whether the other side has answered, but TLS is not agreed on (yet)."""
        if not self.is_tls or self.opened_at:
            return False
        if self._has_failed:
            has_answered: bool = self._handle.getinfo(pycurl.CONNECT_TIME) > 0
            return has_answered
        return self._fd >= 0 and _has_peer(self._fd)

    @property
    def tls_seconds(self) -> float:
        """How long it took to agree on TLS."""
        since: float = self._handle.getinfo(pycurl.CONNECT_TIME)
        until: float = self._handle.getinfo(pycurl.APPCONNECT_TIME)
        return max(0.0, until - since)

    @property
    def is_connected(self) -> bool:
        """False when the other side has closed it, or has said something unasked."""
        if self._is_closed or self._poll.poll(0):
            return False
        if not self.is_tls:
            return True
        try:
            # TLS may have read more than it has given.
            self._handle.recv(1)
        except BlockingIOError:
            return True
        except pycurl.error:
            pass
        return False

    def watch(self, *, writing: bool = False) -> None:
        """Have ``on_ready`` called when there is something to read, or room to write as well."""
        self._means.loop.watch(self._fd, self._ready, writing=writing)

    def send(self, data: bytes | memoryview) -> int:
        """Send as much as there is room for, and say how much that was.

        Raises:
            OSError: it is broken; there may still be something to read.
        """
        try:
            sent: int = self._handle.send(data)
        except BlockingIOError:
            return 0
        except pycurl.error as error:
            raise exchange_fault(self._handle, error) from None
        return sent

    def receive(self, size: int) -> bytes | None:
        """Give what has come; nothing at its end, None when nothing has come yet.

        Raises:
            OSError: it is broken.
        """
        try:
            data: bytes = self._handle.recv(size)
        except BlockingIOError:
            return None
        except pycurl.error as error:
            raise exchange_fault(self._handle, error) from None
        return data

    def close(self) -> None:
        """Close it, however far it is."""
        if self._is_closed:
            return
        self._is_closed = True
        self.on_ready = self._opened = None
        if self.opened_at:
            self._means.loop.unwatch(self._fd)
        self._means.loop.close_handle(self._handle)
        self._means.handles.put(self._handle)

    def _ready(self) -> None:
        if self._is_closed:  # by something else that happened at the same time
            return
        if self.on_ready is None:  # the other side is done with it, or speaks unasked
            self.close()
            return
        self.on_ready()

    def _open_socket(self, _purpose: int, where: Any) -> int:  # noqa: ANN401 - pycurl's
        """Open a socket for libcurl: the last moment at which an address can be refused."""
        try:
            address = str(where.addr[0])
            why = refusal(address, allow_networks=self._means.allow_networks)
            if why is not None:
                raise AddressForbiddenError(f"{address} is {why}")  # noqa: TRY301
            with socket.socket(where.family, where.socktype, where.protocol) as opened:
                # The last descriptor is left to others: a look-up, the way to the database.
                os.close(os.dup(opened.fileno()))
                self._fd = opened.detach()
                return self._fd
        except Exception as error:  # noqa: BLE001 - it has to pass libcurl by
            self._fault = error
            return _NO_SOCKET

    def _was_opened(self, error: tuple[int, str] | None) -> None:
        if error is None:
            self.opened_at = time.monotonic()
            self._fd = self._handle.getinfo(pycurl.ACTIVESOCKET)
            self._poll.register(self._fd, select.POLLIN)
            self.watch()
            self._tell(None)
            return
        self._has_failed = True
        fault = self._fault or opening_fault(self._handle, *error, host=self.origin[1])
        if is_local_fault(fault) and not isinstance(fault, LocalFaultError):
            fault = LocalFaultError(f"no connection could be opened: {fault}")
        self._tell(fault)

    def _tell(self, fault: Exception | None) -> None:
        # Forgotten then: the handle keeps this alive until it opens its next connection.
        opened, self._opened = self._opened, None
        if opened is not None:
            opened(fault)


def _has_peer(fd: int) -> bool:
    """Say whether a socket of libcurl's is connected."""
    borrowed = socket.socket(fileno=fd)
    try:
        borrowed.getpeername()
    except OSError:
        return False
    finally:
        borrowed.detach()
    return True
