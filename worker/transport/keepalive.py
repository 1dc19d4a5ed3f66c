"""Open connections between two requests: few, young and clean."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from typing import Final, Protocol

Origin = tuple[str, str, int]

# The idle limit lies below the keep-alive of common servers (5 s in Node.js), whose closing of
# a connection would meet a request on its way and cost it an attempt. The age bounds for how
# long an answer of the name servers, and our judgement of it, is relied upon.
MAX_IDLE: Final = 4.0
MAX_AGE: Final = 30.0


class Connection(Protocol):
    """What is kept."""

    opened_at: float

    @property
    def is_connected(self) -> bool:
        """False when the other side has closed it, or has said something unasked."""

    def close(self) -> None:
        """Give the socket back."""


class IdleConnections:
    """Connections that wait for their next request, of all origins together.

    Args:
        limit: how many may wait; beyond it the one that waited longest is closed.
        max_idle: seconds after which a waiting connection is closed.
        max_age: seconds after it was opened at which a connection is not used again.
    """

    def __init__(self, *, limit: int, max_idle: float = MAX_IDLE, max_age: float = MAX_AGE) -> None:
        self._limit = limit
        self._max_idle = max_idle
        self._max_age = max_age
        self._lock = threading.Lock()
        self._waiting: OrderedDict[Connection, tuple[Origin, float]] = OrderedDict()
        self._by_origin: dict[Origin, deque[Connection]] = {}

    def put(self, origin: Origin, connection: Connection) -> None:
        """Keep a connection whose last answer was read to its end."""
        with self._lock:
            self._waiting[connection] = origin, time.monotonic()
            self._by_origin.setdefault(origin, deque()).append(connection)
            surplus = self._pop_oldest() if len(self._waiting) > self._limit else None
        if surplus is not None:
            surplus.close()

    def take(self, origin: Origin) -> Connection | None:
        """Give the connection that was used last; None when there is none fit for use."""
        while True:
            with self._lock:
                waiting = self._by_origin.get(origin)
                if not waiting:
                    return None
                connection = waiting.pop()
                if not waiting:
                    del self._by_origin[origin]
                _, since = self._waiting.pop(connection)
            now = time.monotonic()
            is_young = now - since < self._max_idle and now - connection.opened_at < self._max_age
            if is_young and connection.is_connected:
                return connection
            connection.close()

    def sweep(self) -> None:
        """Close what has waited too long."""
        while True:
            with self._lock:
                _, since = next(iter(self._waiting.values()), (None, float("inf")))
                if time.monotonic() - since < self._max_idle:
                    return
                connection = self._pop_oldest()
            connection.close()

    def close(self) -> None:
        """Close everything, and keep nothing from now on."""
        with self._lock:
            self._limit = 0
            connections = list(self._waiting)
            self._waiting.clear()
            self._by_origin.clear()
        for connection in connections:
            connection.close()

    def __len__(self) -> int:
        return len(self._waiting)

    def _pop_oldest(self) -> Connection:
        connection, (origin, _) = self._waiting.popitem(last=False)
        # Whoever waits longest of all waits longest at its origin.
        waiting = self._by_origin[origin]
        waiting.popleft()
        if not waiting:
            del self._by_origin[origin]
        return connection
