"""The fast transport: one thread, thousands of requests, on connections that libcurl opens."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final, cast

from fencepost.egress import Network
from fencepost.model import ErrorClass, Lease, Outgoing, Reply
from worker.resolver import Resolver
from worker.transport.answers import failed
from worker.transport.authorities import Authorities
from worker.transport.base import Done
from worker.transport.calls import Call, Cut
from worker.transport.curl_connection import CurlConnection, Means
from worker.transport.curl_dialling import CurlDialler, Dial
from worker.transport.curl_handles import CurlHandles
from worker.transport.curl_loop import CurlLoop
from worker.transport.exchange import Exchange
from worker.transport.keepalive import IdleConnections
from worker.transport.request_bytes import RequestWriter

log = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 1.0
_IDLE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.1


class CurlTransport:
    """Sends on connections that libcurl dials and secures; what is said on them is ours.

    libcurl's own HTTP is not used: it sends a request again when a connection that was used
    before dies under it, which cannot be switched off, and it gives up on answers that the other
    transport takes. It costs more than twice as much, too.

    Args:
        resolver: looks names up; one for all transports of a process.
        deadline: seconds a request may take, from the look-up to the last byte.
        connect: seconds of these for the connection and its TLS handshake.
        concurrency: requests in flight at once.
        allow_networks: exemptions from the ban of private addresses.
        allow_http: whether plain ``http`` is sent to.
        trust: a file of certificate authorities; None: the system's and certifi's.
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
        trust: Path | None = None,
    ) -> None:
        self.capacity = concurrency
        self._deadline = deadline
        networks = tuple(allow_networks)
        self._writer = RequestWriter(allow_http=allow_http, allow_networks=networks)
        self._authorities = Authorities(trust)
        self._loop = CurlLoop()
        means = Means(self._loop, CurlHandles(self._authorities.path), networks)
        self._dialler = CurlDialler(resolver, means, connect=connect)
        self._idle = IdleConnections(limit=concurrency)
        self._waiting: deque[Call] = deque()
        # All take equally long at most: whichever began first is due first.
        self._running: OrderedDict[Call, Dial | Exchange | None] = OrderedDict()
        self._lost: set[Lease] = set()
        self._changed = threading.Condition()
        self._unanswered = 0
        self._is_closed = False
        self._is_over = False
        self._sweeps_at = 0.0
        self._mishap = threading.Event()  # never set: it is there to wait on
        self._thread: threading.Thread | None = None

    def send(self, outgoing: Outgoing, done: Done) -> None:
        """Hand a request to the loop; see ``Transport``."""
        call = Call(outgoing, done)
        with self._changed:
            if self._is_closed:
                why = "the transport is closed"
            elif not self._has_thread():
                why = "no thread could be started"
            else:
                self._unanswered += 1
                self._loop.post(partial(self._waiting.append, call))
                return
        _refuse(call, why)

    def abort(self, lease: Lease) -> None:
        """Cut a request off whose lease was lost; see ``Transport``."""
        self._loop.post(partial(self._lost.add, lease))

    def close(self, *, wait: float) -> None:
        """Let what is in flight end, then cut it off; see ``Transport``."""
        with self._changed:
            self._changed.wait_for(lambda: not self._unanswered, wait)
            is_first, self._is_closed = not self._is_closed, True
        if not is_first:
            return
        self._loop.post(self._stop)
        if self._thread is not None:
            self._thread.join()
        self._idle.close()
        self._loop.close()
        self._authorities.close()

    def _has_thread(self) -> bool:
        """Start the loop's thread with the first request."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="curl", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # can't start new thread
                return False
            self._thread = thread
        return True

    def _run(self) -> None:
        while not self._is_over:
            try:
                self._turn()
            except Exception:
                # A defect must not end the thread: every request in flight hangs on it.
                log.exception("transport.turn_failed")
                self._mishap.wait(_PAUSE_SECONDS)

    def _turn(self) -> None:
        """Begin what there is room for, wait for anything to happen, end what is due."""
        while self._waiting and len(self._running) < self.capacity:
            self._begin(self._waiting.popleft())
        first = next(iter(self._running), None)
        until = self._sweeps_at if len(self._idle) else time.monotonic() + _IDLE_SECONDS
        self._loop.turn(until if first is None else min(until, first.ends_at))
        self._cut_lost()
        now = time.monotonic()
        while (first := next(iter(self._running), None)) and first.ends_at <= now:
            self._cut(first, Cut.DEADLINE)
        if now >= self._sweeps_at:
            self._idle.sweep()
            self._sweeps_at = now + _SWEEP_SECONDS

    def _begin(self, call: Call) -> None:
        call.start(self._deadline)
        self._running[call] = None
        try:
            endpoint, request = self._writer.write(call.outgoing)
            kept = self._idle.take((endpoint.scheme, endpoint.host, endpoint.port))
        except Exception as error:  # noqa: BLE001 - nothing may escape: a lease hangs on it
            self._end(call, failed(call, error))
            return
        call.detail["reused"] = kept is not None
        if kept is not None:
            connection = cast("CurlConnection", kept)
            call.detail["ip"] = connection.ip
            self._exchange(call, request, connection)
        else:
            dial = Dial(self._dialler, call, endpoint, partial(self._dialled, call, request))
            self._running[call] = dial
            dial.begin()

    def _dialled(
        self,
        call: Call,
        request: bytes,
        connection: CurlConnection | None,
        failure: Exception | None,
    ) -> None:
        if connection is None:
            self._end(call, failed(call, failure))
        else:
            self._exchange(call, request, connection)

    def _exchange(self, call: Call, request: bytes, connection: CurlConnection) -> None:
        exchange = Exchange(call, connection, request, self._answered)
        self._running[call] = exchange
        exchange.begin()

    def _answered(self, exchange: Exchange) -> None:
        connection = exchange.connection
        if exchange.leaves_connection_clean:
            connection.on_ready = None
            self._idle.put(connection.origin, connection)
        else:
            connection.close()
        self._end(exchange.call, exchange.reply())

    def _cut(self, call: Call, why: Cut) -> None:
        call.cut = why
        match self._running.get(call):
            case Exchange() as exchange:
                self._answered(exchange)
            case stage:
                if stage is not None:
                    stage.abandon()
                self._end(call, failed(call, None))

    def _cut_lost(self) -> None:
        """Cut off whose lease was lost, all that are known of at once."""
        if self._lost:
            lost, self._lost = self._lost, set()
            for call in [*self._waiting, *self._running]:
                if call.outgoing.lease in lost:
                    self._cut(call, Cut.LEASE)

    def _stop(self) -> None:
        for call in [*self._waiting, *self._running]:
            self._cut(call, Cut.CLOSED)
        self._is_over = True

    def _end(self, call: Call, reply: Reply) -> None:
        """Answer for a call, once."""
        if call in self._running:
            del self._running[call]
        else:
            self._waiting.remove(call)
        _tell(call, reply)
        with self._changed:
            self._unanswered -= 1
            if not self._unanswered:
                self._changed.notify_all()


def _tell(call: Call, reply: Reply) -> None:
    try:
        call.done(call.outgoing, reply)
    except Exception:
        log.exception("transport.done_failed delivery=%s", call.outgoing.lease.delivery_id)


def _refuse(call: Call, why: str) -> None:
    """Answer for a call that no loop will see, from a thread of its own where one is to be had."""
    reply = Reply(None, ErrorClass.LOCAL_ERROR, why)
    try:
        threading.Thread(target=_tell, args=(call, reply), daemon=True).start()
    except RuntimeError:  # can't start new thread
        _tell(call, reply)
