"""How fast a receiver is when nothing but a client of it runs.

Plain sockets, one request at a time on each, as workers send them. The client shares the machine,
so what it finds is the least that the receiver can do.
"""

from __future__ import annotations

import selectors
import socket
import statistics
import time
from typing import Final, cast

_CONNECTIONS: Final = 64
_STATUS_LINE: Final = b"HTTP/1.1 2"


def requests_per_second(port: int, *, payload: int, seconds: float = 0.3) -> float:
    """Measure a receiver on this machine: the middle one of three short tries.

    Args:
        port: where it listens.
        payload: bytes of each request's body.
        seconds: how long each try takes.
    """
    return statistics.median(_try(port, payload, seconds) for _ in range(3))


def _try(port: int, payload: int, seconds: float) -> float:
    request = (
        b"POST /webhooks HTTP/1.1\r\nHost: receiver\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % payload
    ) + b"x" * payload
    answered = 0
    with selectors.DefaultSelector() as selector:
        for _ in range(_CONNECTIONS):
            sock = socket.create_connection(("127.0.0.1", port))
            selector.register(sock, selectors.EVENT_READ)
            sock.sendall(request)
        began = time.monotonic()
        while (took := time.monotonic() - began) < seconds:
            for key, _ in selector.select(timeout=seconds):
                sock = cast("socket.socket", key.fileobj)
                # The rest of a large answer comes in more pieces; the status line is in the first.
                if sock.recv(262_144).startswith(_STATUS_LINE):
                    answered += 1
                    sock.sendall(request)
        for key in list(selector.get_map().values()):
            cast("socket.socket", key.fileobj).close()
    return answered / took
