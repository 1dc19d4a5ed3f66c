"""The adapter that a session of ``requests`` sends with: checked addresses, one request."""

from __future__ import annotations

import ssl
from typing import Any, cast

import certifi
import requests
from requests.adapters import BaseAdapter

from fencepost.endpoints import Endpoint
from worker.transport.connections import GuardedConnection, GuardedTLSConnection
from worker.transport.deadlines import CutShortError, SocketCall
from worker.transport.dialling import Dialler
from worker.transport.keepalive import IdleConnections
from worker.transport.request_bytes import RequestWriter


class GuardedRequest(requests.PreparedRequest):
    """A prepared request that knows for which call it is sent."""

    call: SocketCall
    url: str
    body: bytes


class GuardedAdapter(BaseAdapter):
    """Sends a prepared request exactly once, to nowhere but where its URL says.

    ``requests``' own adapter costs several times as much, and most of it is for what must not
    happen here: redirects, proxies, cookies, retries.

    Args:
        dialler: opens connections.
        idle: keeps them between requests.
        writer: judges URLs, and writes requests.
        tls: verifies certificates.
    """

    def __init__(
        self,
        dialler: Dialler,
        idle: IdleConnections,
        writer: RequestWriter,
        tls: ssl.SSLContext,
    ) -> None:
        super().__init__()
        self._dialler = dialler
        self._idle = idle
        self._writer = writer
        self._tls = tls

    def send(  # type: ignore[override] # and none of the options: a session gives them all
        self, request: GuardedRequest, **_: object
    ) -> requests.Response:
        """Send the request of a call; its deadlines are for the thread that watches them.

        Returns:
            A response whose ``raw`` is the ``Answer``.

        Raises:
            Exception: no status line came; ``faults.judge`` says what that means.
        """
        endpoint, data = self._writer.compose(request.url, request.headers.items(), request.body)
        connection = self._connected(request.call, endpoint)
        answer = connection.exchange(request.call, data)
        if connection.is_clean:
            self._idle.put(connection.origin, connection)
        else:
            connection.close()
        if answer.status is None:
            raise answer.failure or CutShortError
        response = requests.Response()
        response.status_code = answer.status
        response.raw = cast("Any", answer)
        response.request = request
        return response

    def close(self) -> None:
        """Leave the connections to whom they belong to."""

    def _connected(self, call: SocketCall, endpoint: Endpoint) -> GuardedConnection:
        kept = self._idle.take((endpoint.scheme, endpoint.host, endpoint.port))
        call.detail["reused"] = kept is not None
        if kept is not None:
            connection = cast("GuardedConnection", kept)
            reach = connection.reopen
        elif endpoint.scheme == "https":
            connection = GuardedTLSConnection(endpoint, self._dialler, ssl_context=self._tls)
            reach = connection.open
        else:
            connection = GuardedConnection(endpoint, self._dialler)
            reach = connection.open
        try:
            reach(call)
        except BaseException:
            connection.close()
            raise
        call.detail["ip"] = connection.ip
        return connection


def verifying_context() -> ssl.SSLContext:
    """Trust the system's authorities, where operators add their own, and certifi's bundle."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
