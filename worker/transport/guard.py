"""The adapter that ``requests`` is given: checked addresses, one request, honest answers."""

from __future__ import annotations

import socket
import ssl
import time
from functools import partial
from typing import Any, NoReturn, cast

import certifi
import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.response import BaseHTTPResponse, HTTPResponse

from worker.transport.answers import FinalResponse, ends_plainly
from worker.transport.calls import Phase
from worker.transport.dialling import Dialler, current
from worker.transport.keepalive import IdleConnections, Origin


class _Guarded(HTTPConnection):
    """A connection that knows who dialled it and whether it may be used again."""

    response_class = FinalResponse
    dialler: Dialler
    ip = ""
    opened_at = 0.0
    may_be_kept = False

    def _new_conn(self) -> socket.socket:
        sock, self.ip = self.dialler.dial(self._dns_host, self.port)
        self.opened_at = time.monotonic()
        current().enter(Phase.TLS, measured="connect_ms")
        return sock

    def connect(self) -> None:
        call = current()
        super().connect()
        call.connected()
        if isinstance(self.sock, ssl.SSLSocket):
            call.enter(Phase.SEND, measured="tls_ms")
        call.enter(Phase.SEND)
        self.sock.settimeout(call.left())

    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as urllib3 does
        current().enter(Phase.HEAD)
        response = super().getresponse()
        self.may_be_kept = ends_plainly(response)
        return response


class _GuardedTLS(_Guarded, HTTPSConnection):
    """The same over TLS; host name, SNI and certificate stay by name."""

    @property
    def is_connected(self) -> bool:
        """False when the other side has closed it, or has said something unasked."""
        # What TLS has decrypted and nobody has read shows on no socket.
        return super().is_connected and not cast("ssl.SSLSocket", self.sock).pending()


class _GuardedPool(HTTPConnectionPool):
    """urllib3's pool of one origin, with its connections kept elsewhere, together with all."""

    ConnectionCls = _Guarded

    dialler: Dialler
    idle: IdleConnections

    @property
    def _origin(self) -> Origin:
        return self.scheme, self.host, cast("int", self.port)

    def _get_conn(self, timeout: float | None = None) -> _Guarded:  # noqa: ARG002
        call = current()
        kept = cast("_Guarded | None", self.idle.take(self._origin))
        call.detail["reused"] = kept is not None
        if kept is None:
            fresh = cast("_Guarded", self._new_conn())
            fresh.dialler = self.dialler
            return fresh
        try:
            call.hold(cast("socket.socket", kept.sock))
        except BaseException:
            kept.close()
            raise
        call.detail["ip"] = kept.ip
        call.enter(Phase.SEND)
        kept.may_be_kept = False
        return kept

    def _put_conn(self, conn: object) -> None:
        if not isinstance(conn, _Guarded) or conn.sock is None:
            return
        call = current()
        # From here on nobody may shut it down for this call's sake.
        call.let_go()
        if conn.may_be_kept and call.cut is None:
            self.idle.put(self._origin, conn)
        else:
            conn.close()


class _GuardedTLSPool(_GuardedPool, HTTPSConnectionPool):
    """The same over TLS."""

    ConnectionCls = _GuardedTLS


class GuardedAdapter(HTTPAdapter):
    """Sends a prepared request exactly once, to nowhere but where its URL says.

    Used without a ``requests`` session: no redirect is followed, no proxy, ``.netrc`` or cookie
    is looked at, and nothing of an answer reaches another request.

    Args:
        dialler: opens connections.
        idle: keeps them between requests.
        tls: verifies certificates.
    """

    def __init__(self, dialler: Dialler, idle: IdleConnections, tls: ssl.SSLContext) -> None:
        self._dialler = dialler
        self._idle = idle
        self._tls = tls
        super().__init__(pool_connections=256, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, connections: int, maxsize: int, *_: object, **__: object) -> None:
        """Make pools of guarded connections."""
        self.poolmanager = PoolManager(
            num_pools=connections, maxsize=maxsize, ssl_context=self._tls
        )
        self.poolmanager.pool_classes_by_scheme = {
            "http": partial(self._make_pool, _GuardedPool),
            "https": partial(self._make_pool, _GuardedTLSPool),
        }

    def _make_pool(
        self,
        kind: type[_GuardedPool],
        host: str,
        port: int,
        **options: Any,  # noqa: ANN401 - urllib3's
    ) -> _GuardedPool:
        pool = kind(host, port, **options)
        pool.dialler, pool.idle = self._dialler, self._idle
        return pool

    def proxy_manager_for(self, *_: object, **__: object) -> NoReturn:
        """Refuse: a proxy would make the look-up, and the check, elsewhere."""
        raise ValueError("requests leave through no proxy")

    def cert_verify(self, *_: object, **__: object) -> None:
        """Leave it to the TLS context: ``requests`` would load its bundle for every connection."""

    def request_url(self, request: requests.PreparedRequest, *_: object) -> str:
        """Give path and query as they are; ``requests`` would take leading slashes away."""
        return request.path_url

    def build_response(
        self, req: requests.PreparedRequest, resp: BaseHTTPResponse
    ) -> requests.Response:
        """Wrap an answer without reading cookies or an encoding out of it."""
        response = requests.Response()
        response.status_code = resp.status
        response.raw = resp
        response.request = req
        return response


def verifying_context() -> ssl.SSLContext:
    """Trust the system's authorities, where operators add their own, and certifi's bundle."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
