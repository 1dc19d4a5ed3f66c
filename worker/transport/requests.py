"""The default transport: threads, each performing one request with ``requests``."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Iterable
from typing import cast

import requests
from requests.structures import CaseInsensitiveDict

from fencepost.egress import Network
from fencepost.model import ErrorClass, Lease, Outgoing, Reply
from worker.resolver import Resolver
from worker.transport.answers import Answer, failed
from worker.transport.base import Done
from worker.transport.calls import Cut
from worker.transport.crew import Crew
from worker.transport.deadlines import SocketCall, Watch
from worker.transport.dialling import Dialler
from worker.transport.guard import GuardedAdapter, GuardedRequest, verifying_context
from worker.transport.keepalive import IdleConnections
from worker.transport.request_bytes import RequestWriter
from worker.transport.sendable import check_sendable

log = logging.getLogger(__name__)


class RequestsTransport:
    """Sends prepared requests through a session whose only adapter is guarded.

    Args:
        resolver: looks names up; one for all transports of a process.
        deadline: seconds a request may take, from the look-up to the last byte.
        connect: seconds of these for the connection and its TLS handshake.
        concurrency: requests in flight at once, and so threads; they start when needed.
        allow_networks: exemptions from the ban of literal addresses.
        allow_http: whether plain ``http`` is sent to.
        tls: verifies certificates; None: against the system's authorities and certifi's.
    """

    def __init__(
        self,
        resolver: Resolver,
        *,
        deadline: float,
        connect: float,
        concurrency: int,
        allow_networks: Iterable[Network] = (),
        allow_http: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        # Its warnings name paths, and paths can carry tokens.
        logging.getLogger("urllib3").setLevel(logging.CRITICAL)
        self.capacity = concurrency
        self._deadline = deadline
        self._idle = IdleConnections(limit=concurrency)
        self._watch = Watch(self._idle.sweep)
        self._crew = Crew(self._perform, self._strand, size=concurrency)
        self._session = _session(
            GuardedAdapter(
                Dialler(resolver, connect=connect, expect=self._watch.expect),
                self._idle,
                RequestWriter(allow_http=allow_http, allow_networks=allow_networks),
                tls or verifying_context(),
            )
        )

    def send(self, outgoing: Outgoing, done: Done) -> None:
        """Hand a request to a thread; see ``Transport``."""
        call = SocketCall(outgoing, done)
        self._watch.begin(call)
        if not self._crew.put(call):
            reply = Reply(None, ErrorClass.LOCAL_ERROR, "the transport is closed")
            threading.Thread(target=self._end, args=(call, reply), daemon=True).start()

    def abort(self, lease: Lease) -> None:
        """Cut a request off whose lease was lost; see ``Transport``."""
        self._watch.cut(lease, Cut.LEASE)

    def close(self, *, wait: float) -> None:
        """Let what is in flight end, then cut it off; see ``Transport``."""
        self._watch.wait_empty(wait)
        self._watch.cut_all(Cut.CLOSED)
        self._watch.wait_empty()
        self._crew.close()
        self._session.close()
        self._idle.close()
        self._watch.close()

    def _perform(self, call: SocketCall) -> None:
        call.start(self._deadline)
        self._watch.expect(call)
        try:
            call.check()
            response = self._session.send(
                _prepare(call), stream=True, allow_redirects=False, proxies={}
            )
            reply = cast("Answer", response.raw).reply()
        except BaseException as error:  # noqa: BLE001 - nothing may escape: a lease hangs on it
            reply = failed(call, error)
        self._end(call, reply)

    def _strand(self, call: SocketCall) -> None:
        self._end(call, Reply(None, ErrorClass.LOCAL_ERROR, "no thread could be started"))

    def _end(self, call: SocketCall, reply: Reply) -> None:
        self._watch.end(call)
        try:
            call.done(call.outgoing, reply)
        except Exception:
            log.exception("transport.done_failed delivery=%s", call.outgoing.lease.delivery_id)


def _session(adapter: GuardedAdapter) -> requests.Session:
    """Make a session with one way out, whatever the URL; threads share it, and none changes it."""
    session = requests.Session()
    session.trust_env = False
    session.adapters.clear()
    session.mount("", adapter)
    return session


def _prepare(call: SocketCall) -> GuardedRequest:
    """Judge a request and prepare it as it is: nothing of it may be changed or added to."""
    outgoing = call.outgoing
    check_sendable(outgoing.headers)
    request = GuardedRequest()
    request.call = call
    request.method, request.url, request.body = "POST", outgoing.url, outgoing.body
    request.headers = CaseInsensitiveDict(outgoing.headers)
    return request
