"""A connection that libcurl dials and secures, and on which the bytes are ours."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import pycurl

from fencepost.egress import Network, refusal
from fencepost.endpoints import Endpoint
from worker.local_faults import LocalFaultError, is_local_fault
from worker.resolver import AddressForbiddenError
from worker.transport.authorities import Authorities
from worker.transport.curl_faults import exchange_fault, opening_fault
from worker.transport.curl_loop import Act, CurlLoop
from worker.transport.keepalive import Origin

_BACKSTOP_MS: Final = 1000
_MAX_SPARE: Final = 1024
_NO_SOCKET: Final[int] = pycurl.SOCKET_BAD


class CurlConnections:
    """Makes connections, and uses libcurl's handles again.

    Args:
        loop: drives them.
        authorities: who vouches for receivers.
        allow_networks: exemptions from the address ban.
    """

    def __init__(
        self, loop: CurlLoop, authorities: Authorities, allow_networks: Iterable[Network]
    ) -> None:
        self.loop = loop
        self.allow_networks = tuple(allow_networks)
        self._authorities = authorities
        self._spare: list[pycurl.Curl] = []

    def take_handle(self) -> pycurl.Curl:
        """Give a handle that opens connections and does nothing else."""
        if self._spare:
            return self._spare.pop()
        handle = pycurl.Curl()
        # libcurl is not told what to send. It would send a request a second time, unasked, when
        # a connection that was used before dies under it, and nothing can forbid it that.
        handle.setopt(pycurl.CONNECT_ONLY, 1)
        handle.setopt(pycurl.NOSIGNAL, 1)
        handle.setopt(pycurl.PROXY, "")  # whatever the environment says
        handle.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        handle.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2)  # and above
        handle.setopt(pycurl.SSL_VERIFYPEER, 1)
        handle.setopt(pycurl.SSL_VERIFYHOST, 2)
        handle.setopt(pycurl.CAINFO, self._authorities.path)
        handle.unsetopt(pycurl.CAPATH)
        return handle

    def put_handle(self, handle: pycurl.Curl) -> None:
        """Take a handle back whose connection is closed."""
        if len(self._spare) < _MAX_SPARE:
            self._spare.append(handle)
        else:
            handle.close()

    def open(
        self,
        endpoint: Endpoint,
        ip: str,
        *,
        within: float,
        opened: Callable[[Exception | None], None],
    ) -> CurlConnection:
        """Begin to open a connection.

        Args:
            endpoint: Host, SNI and the certificate's name are its.
            ip: where it is dialled.
            within: seconds after which libcurl gives up; a backstop, whoever opens it watches.
            opened: told when it is open, or why it is not; ``close`` it in either case.
        """
        return CurlConnection(self, endpoint, ip, within, opened)


class CurlConnection:
    """One connection; closed once and for all by ``close``.

    Attributes:
        ip: where it leads.
        opened_at: when it was open.
        on_ready: what it is used for; None while it waits for its next use.
    """

    def __init__(
        self,
        made_by: CurlConnections,
        endpoint: Endpoint,
        ip: str,
        within: float,
        opened: Callable[[Exception | None], None],
    ) -> None:
        self.ip = ip
        self.opened_at = 0.0
        self.origin: Origin = endpoint.scheme, endpoint.host, endpoint.port
        self.is_tls = endpoint.scheme == "https"
        self.on_ready: Act | None = None
        self._made_by = made_by
        self._opened = opened
        self._fault: Exception | None = None
        self._has_failed = False
        self._fd = -1
        handle = self._handle = made_by.take_handle()
        self._is_closed = False
        shown = f"[{ip}]" if ":" in ip else ip
        handle.setopt(pycurl.URL, endpoint.origin)
        handle.setopt(pycurl.CONNECT_TO, [f"::{shown}:{endpoint.port}"])
        handle.setopt(pycurl.CONNECTTIMEOUT_MS, round(within * 1000) + _BACKSTOP_MS)
        handle.setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)
        made_by.loop.open(handle, self._was_opened)

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
        if self._is_closed:
            return False
        try:
            self._handle.recv(1)
        except BlockingIOError:
            return True
        except pycurl.error:
            pass
        return False

    def watch(self, *, writing: bool = False) -> None:
        """Have ``on_ready`` called when there is something to read, or room to write as well."""
        self._made_by.loop.watch(self._fd, self._ready, writing=writing)

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
        self.on_ready = None
        if self.opened_at:
            self._made_by.loop.unwatch(self._fd)
        self._made_by.loop.close_handle(self._handle)
        self._made_by.put_handle(self._handle)

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
            why = refusal(address, allow_networks=self._made_by.allow_networks)
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
            self.watch()
            self._opened(None)
            return
        self._has_failed = True
        fault = self._fault or opening_fault(self._handle, *error, host=self.origin[1])
        if is_local_fault(fault) and not isinstance(fault, LocalFaultError):
            fault = LocalFaultError(f"no connection could be opened: {fault}")
        self._opened(fault)


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
