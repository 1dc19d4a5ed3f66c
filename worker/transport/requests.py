"""The default transport: threads, each performing one request with ``requests``."""

from __future__ import annotations

import logging
import ssl
import threading
from collections import deque
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
        self._stranded: deque[SocketCall] = deque()
        self._watch = Watch(self._tick)  # ticks from now on
        self._ready = threading.Condition()
        self._waiting: deque[SocketCall] = deque()
        self._threads: list[threading.Thread] = []
        self._idle_threads = 0
        self._is_closed = False
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
        with self._ready:
            if self._is_closed:
                self._refuse(call)
                return
            self._waiting.append(call)
            if self._idle_threads < len(self._waiting) and len(self._threads) < self.capacity:
                self._hire()
            self._ready.notify()

    def abort(self, lease: Lease) -> None:
        """Cut a request off whose lease was lost; see ``Transport``."""
        self._watch.cut(lease, Cut.LEASE)

    def close(self, *, wait: float) -> None:
        """Let what is in flight end, then cut it off; see ``Transport``."""
        self._watch.wait_empty(wait)
        self._watch.cut_all(Cut.CLOSED)
        self._watch.wait_empty()
        with self._ready:
            self._is_closed = True
            self._ready.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join()
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

    def _hire(self) -> None:
        thread = threading.Thread(target=self._work, name=f"send {len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # can't start new thread: those there are will do
            if not self._threads:
                self._stranded.append(self._waiting.pop())
            return
        self._threads.append(thread)

    def _work(self) -> None:
        while True:
            with self._ready:
                self._idle_threads += 1
                self._ready.wait_for(lambda: self._waiting or self._is_closed)
                self._idle_threads -= 1
                if not self._waiting:
                    return
                call = self._waiting.popleft()
            self._perform(call)

    def _tick(self) -> None:
        """From the deadline thread: close old connections, and answer for who has no thread."""
        self._idle.sweep()
        while self._stranded:
            reply = Reply(None, ErrorClass.LOCAL_ERROR, "no thread could be started")
            self._end(self._stranded.popleft(), reply)

    def _refuse(self, call: SocketCall) -> None:
        reply = Reply(None, ErrorClass.LOCAL_ERROR, "the transport is closed")
        threading.Thread(target=self._end, args=(call, reply), daemon=True).start()

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
