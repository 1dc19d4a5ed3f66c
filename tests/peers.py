"""Raw servers that do to a client whatever a test says, byte by byte."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Peer:
    """One connection, seen from the server."""

    def __init__(self, server: PeerServer, connection: socket.socket, number: int) -> None:
        self.number = number
        self._server = server
        self._socket = connection
        self._stream = connection.makefile("rb")

    def read_request(self) -> bytes:
        """Read one whole request; empty when the client has closed the connection."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self._stream.readline()
            if not line:
                return b""
            head += line
        length = next(
            int(line.partition(b":")[2])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length:")
        )
        request = head + self._stream.read(length)
        self._server.requests.append(request)
        return request

    def read_some(self, size: int) -> bytes:
        return self._socket.recv(size)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def drip(self, data: bytes, *, every: float = 0.02) -> None:
        """Send one byte after the other until the client has had enough."""
        for byte in data:
            self.send(bytes([byte]))
            if self.pause(every):
                return

    def pause(self, seconds: float = 30) -> bool:
        """Wait; true when the test is over."""
        return self._server.is_over.wait(seconds)

    def reset(self) -> None:
        """Close with RST."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


class PeerServer:
    """Listens on loopback and plays ``play`` on every connection, each in its own thread."""

    def __init__(
        self,
        play: Callable[[Peer], None],
        *,
        tls: ssl.SSLContext | None = None,
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.ended = 0
        self.is_over = threading.Event()
        self._open: list[socket.socket] = []
        self._play = play
        self._tls = tls
        self._listener = socket.create_server((address, port), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://{address}:{self.port}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(
                target=self._serve, args=(connection, self.connections), daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        connection.settimeout(30)
        with suppress(OSError), connection:
            if self._tls is None:
                served = connection
            else:
                served = self._tls.wrap_socket(connection, server_side=True)
            self._open.append(served)
            with served:
                peer = Peer(self, served, number)
                with suppress(OSError):
                    self._play(peer)
                peer.close()
        self.ended += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)


def answering(answer: bytes) -> Callable[[Peer], None]:
    """Give every request the same answer, and keep the connection."""

    def play(peer: Peer) -> None:
        while peer.read_request():
            peer.send(answer)

    return play


def answering_once(answer: bytes) -> Callable[[Peer], None]:
    """Give one answer, then close."""

    def play(peer: Peer) -> None:
        peer.read_request()
        peer.send(answer)

    return play
