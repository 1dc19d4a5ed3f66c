"""Opening a connection without blocking: one look-up, every address checked, one after another."""

from __future__ import annotations

import time
from collections.abc import Callable

from fencepost.endpoints import Endpoint
from fencepost.errors import FencepostError
from worker.resolver import Lookup, Resolver
from worker.transport.calls import Call, Cut, Phase
from worker.transport.curl_connection import CurlConnection, Means
from worker.transport.curl_loop import Timer
from worker.transport.deadlines import CutShortError
from worker.transport.dialling import MAX_DIALLED, connect_failed

Dialled = Callable[[CurlConnection | None, Exception | None], None]


class CurlDialler:
    """What dials take.

    Args:
        resolver: looks up and judges, in threads of its own.
        means: what connections take.
        connect: seconds for the connection and its TLS handshake, over all addresses.
    """

    def __init__(self, resolver: Resolver, means: Means, *, connect: float) -> None:
        self.resolver = resolver
        self.means = means
        self.loop = means.loop
        self.connect = connect


class Dial:
    """One connection on its way to being open.

    Args:
        dialler: what it takes.
        call: whose phases and measures it notes.
        endpoint: where it leads.
        dialled: given the connection, or why there is none; not called once it is abandoned.
    """

    def __init__(
        self, dialler: CurlDialler, call: Call, endpoint: Endpoint, dialled: Dialled
    ) -> None:
        self._dialler = dialler
        self._call = call
        self._endpoint = endpoint
        self._dialled: Dialled | None = dialled
        self._lookup: Lookup | None = None
        self._left: list[str] = []
        self._connects_by = float("inf")
        self._connection: CurlConnection | None = None
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Look the host up."""
        resolver, loop = self._dialler.resolver, self._dialler.loop
        self._call.enter(Phase.LOOK_UP)
        try:
            lookup = resolver.begin(self._endpoint.host, lambda: loop.post(self._looked_up))
        except FencepostError as error:
            self._end(None, error)
            return
        self._lookup = lookup
        if lookup.is_answered.is_set():
            self._looked_up()
        else:
            ends_at = resolver.ends_at(lookup, within=float("inf"))
            self._timer = loop.at(ends_at, self._looked_up)

    def abandon(self) -> None:
        """Stop; what is open is closed."""
        self._note_phase()
        if self._lookup is not None:
            self._dialler.resolver.leave(self._lookup)
            self._lookup = None
        self._dialled = None
        self._release()

    def _looked_up(self) -> None:
        """Take the answer, or the end of the time for it."""
        lookup, self._lookup = self._lookup, None
        if lookup is None:
            return
        self._release()
        try:
            self._left = list(self._dialler.resolver.finish(lookup)[:MAX_DIALLED])
        except FencepostError as error:
            self._end(None, error)
            return
        self._call.enter(Phase.CONNECT, measured="dns_ms")
        self._connects_by = time.monotonic() + self._dialler.connect
        self._dial_next()

    def _dial_next(self) -> None:
        now = time.monotonic()
        ip = self._call.detail["ip"] = self._left[0]
        # An address that swallows everything leaves the others their share.
        share = (self._connects_by - now) / len(self._left)
        self._timer = self._dialler.loop.at(now + share, self._time_is_up)
        try:
            self._connection = CurlConnection(
                self._dialler.means,
                self._endpoint,
                ip,
                within=self._connects_by - now,
                opened=self._opened,
            )
        except Exception as error:  # noqa: BLE001 - a call must not wait for its deadline
            self._end(None, error)

    def _opened(self, failure: Exception | None) -> None:
        connection = self._connection
        if connection is None:
            return
        if failure is None:
            self._connection = None
            self._measure(connection)
            self._end(connection, None)
        elif isinstance(failure, OSError) and not connection.is_agreeing_on_tls:
            self._try_another(failure)
        else:
            self._note_phase()
            self._end(None, failure)

    def _time_is_up(self) -> None:
        """End an address's share of the time; once it has answered, TLS may take all the rest."""
        self._note_phase()
        if self._call.phase is not Phase.TLS:
            self._try_another(TimeoutError())
        elif time.monotonic() < self._connects_by:
            self._timer = self._dialler.loop.at(self._connects_by, self._time_is_up)
        else:
            self._call.cut = Cut.CONNECT
            self._end(None, CutShortError())

    def _try_another(self, failure: OSError) -> None:
        self._release()
        ip = self._left.pop(0)
        if self._left:
            self._dial_next()
        else:
            self._end(None, connect_failed(ip, self._endpoint.port, failure))

    def _measure(self, connection: CurlConnection) -> None:
        tls = connection.tls_seconds if connection.is_tls else 0.0
        connected = time.monotonic() - self._call.phase_at - tls
        self._call.detail["connect_ms"] = round(max(0.0, connected) * 1000, 1)
        if connection.is_tls:
            self._call.detail["tls_ms"] = round(tls * 1000, 1)

    def _note_phase(self) -> None:
        if self._connection is not None and self._connection.is_agreeing_on_tls:
            self._call.phase = Phase.TLS

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _end(self, connection: CurlConnection | None, failure: Exception | None) -> None:
        self._release()
        dialled, self._dialled = self._dialled, None
        if dialled is not None:
            dialled(connection, failure)
