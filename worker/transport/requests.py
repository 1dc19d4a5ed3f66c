"""The default transport: a pool of threads, each performing one request with ``requests``."""

from __future__ import annotations

import logging
import ssl
import threading
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

import requests
from requests.structures import CaseInsensitiveDict
from urllib3.response import HTTPResponse
from urllib3.util import Timeout

from fencepost.egress import Network
from fencepost.model import ErrorClass, Lease, Outgoing, Reply
from worker.resolver import Resolver
from worker.transport.base import MAX_BODY_KEPT, MAX_BODY_READ, Done
from worker.transport.calls import Cut, Phase
from worker.transport.deadlines import SocketCall, Watch
from worker.transport.dialling import Dialler, performing
from worker.transport.faults import judge, say_cut
from worker.transport.guard import GuardedAdapter, verifying_context
from worker.transport.heads import MAX_HEADERS_KEPT, MAX_NAME, MAX_VALUE, storable
from worker.transport.keepalive import IdleConnections
from worker.transport.sendable import check_sendable, url_judge

log = logging.getLogger(__name__)

_PIECE: Final = 16 * 1024


class RequestsTransport:
    """Sends with prepared requests, straight through a guarded adapter.

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
        # A backstop only: it is the deadline thread that ends what takes too long.
        self._timeout = Timeout(connect=deadline + 1, read=deadline + 1)
        self._idle = IdleConnections(limit=concurrency)
        self._stranded: deque[SocketCall] = deque()
        self._watch = Watch(self._tick)  # ticks from now on
        dialler = Dialler(resolver, connect=connect, expect=self._watch.expect)
        self._adapter = GuardedAdapter(dialler, self._idle, tls or verifying_context())
        self._judge_url = url_judge(allow_http=allow_http, allow_networks=allow_networks)
        self._ready = threading.Condition()
        self._waiting: deque[SocketCall] = deque()
        self._threads: list[threading.Thread] = []
        self._idle_threads = 0
        self._is_closed = False

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
        self._idle.close()
        self._adapter.close()
        self._watch.close()

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
            self._end(call, self._perform(call))

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

    def _perform(self, call: SocketCall) -> Reply:
        call.start(self._deadline)
        self._watch.expect(call)
        try:
            with performing(call):
                call.check()
                response = self._adapter.send(
                    self._prepare(call.outgoing),
                    stream=True,
                    timeout=self._timeout,  # type: ignore[arg-type] # an adapter takes it
                )
                return _read(call, response.raw)
        except BaseException as error:  # noqa: BLE001 - nothing may escape: a lease hangs on it
            kind, message = judge(call, error)
            return Reply(
                None, kind, message, latency_ms=call.elapsed_ms(), detail=dict(call.detail)
            )

    def _prepare(self, outgoing: Outgoing) -> requests.PreparedRequest:
        check_sendable(outgoing.headers)
        request = requests.PreparedRequest()
        request.method = "POST"
        request.url = self._judge_url(outgoing.url).url
        request.headers = CaseInsensitiveDict(outgoing.headers)
        request.headers["Content-Length"] = str(len(outgoing.body))
        request.body = outgoing.body
        return request


def _read(call: SocketCall, raw: HTTPResponse) -> Reply:
    """Read the body as far as it is wanted: the status line has decided already."""
    call.enter(Phase.BODY)
    kept = bytearray()
    size = 0
    is_whole = False
    message = None
    try:
        while size < MAX_BODY_READ and not is_whole:
            piece = raw.read1(min(_PIECE, MAX_BODY_READ - size), decode_content=False)
            size += len(piece)
            kept += piece[: MAX_BODY_KEPT - len(kept)]
            is_whole = not piece or raw.isclosed()
    except Exception as error:  # noqa: BLE001 - whatever it is, the status stands
        message = judge(call, error)[1]
    if call.cut is not None:
        # Shut down by us, a body without a length seems to end like any other.
        is_whole, message = False, say_cut(call, call.cut)
    if not is_whole:
        raw.close()
    return Reply(
        raw.status,
        message=message,
        headers=_storable(raw),
        body=bytes(kept),
        body_truncated=size > len(kept) or not is_whole,
        latency_ms=call.elapsed_ms(),
        detail=dict(call.detail),
    )


def _storable(raw: HTTPResponse) -> tuple[tuple[str, str], ...]:
    """Give headers as text that any column takes: http.client reads bytes as latin-1."""
    return tuple(
        (
            storable(name.encode("latin-1", "replace"), MAX_NAME),
            storable(value.encode("latin-1", "replace"), MAX_VALUE),
        )
        for name, value in islice(raw.headers.iteritems(), MAX_HEADERS_KEPT)
    )
