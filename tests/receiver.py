"""A webhook receiver for tests: it writes every request down, then answers by script.

In a test: ``with Receiver(in_turn(503, 503, 200)) as receiver: … receiver.url``.
As a program: ``python tests/receiver.py --port 0 --log FILE --script 503,503,200``; it prints
its URL, takes a new script at ``POST /-/script`` and lets go what it holds at ``POST /-/release``.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import socket
import socketserver
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, Self


@dataclass(frozen=True)
class Received:
    """A request as it came in."""

    at: float
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    crowd: int = 1
    """How many requests to its target were open when it came in, itself included."""

    def header(self, name: str) -> str:
        (value,) = [value for key, value in self.headers if key.lower() == name.lower()]
        return value


@dataclass(frozen=True)
class Answer:
    """What to do with a request; ``end`` breaks the exchange off at a stage instead."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0
    hold: bool = False
    end: Literal["", "before_head", "in_head", "in_body"] = ""
    reset: bool = False  # RST instead of FIN


Script = Callable[[Received], Answer]


def in_turn(*answers: Answer | int) -> Script:
    """Give each event (``webhook-id``) and target these answers in turn, and the last for ever."""
    counts: Counter[tuple[str, str]] = Counter()
    guard = threading.Lock()

    def script(received: Received) -> Answer:
        event = next((v for k, v in received.headers if k.lower() == "webhook-id"), "")
        with guard:
            number = counts[event, received.target]
            counts[event, received.target] += 1
        answer = answers[min(number, len(answers) - 1)]
        return Answer(answer) if isinstance(answer, int) else answer

    return script


def read_script(text: str) -> Script:
    """Read ``503,drop,reset,hold,200``, or a JSON list of ``Answer``'s fields for more."""
    if text.lstrip().startswith("["):
        return in_turn(*(_from_json(item) for item in json.loads(text)))
    words = {
        "drop": Answer(end="before_head"),
        "reset": Answer(end="before_head", reset=True),
        "hold": Answer(hold=True),
    }
    return in_turn(*(words.get(word) or int(word) for word in text.split(",")))


def _from_json(fields: Mapping[str, Any]) -> Answer:
    return Answer(**{**fields, "body": str(fields.get("body", "")).encode()})


class Receiver(socketserver.ThreadingTCPServer):
    """Listens until it is closed, on loopback by default; ``requests`` grows before each answer."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self,
        script: Script | Answer | int = 200,
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        log: Path | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.script: Script = script if callable(script) else in_turn(script)
        self.requests: list[Received] = []
        self.connections = 0
        self._log = log.open("ab") if log else None
        self._tls = tls
        self._arrived = threading.Condition()
        self._released = threading.Event()
        self._open: set[socket.socket] = set()
        self._crowds: Counter[str] = Counter()
        super().__init__((address, port), _Connection)
        self.port: int = self.server_address[1]
        self.url = f"{'https' if tls else 'http'}://{address}:{self.port}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def record(self, received: Received) -> Received:
        with self._arrived:
            self._crowds[received.target] += 1
            received = replace(received, crowd=self._crowds[received.target])
            if self._log:
                line = {**asdict(received), "body": base64.b64encode(received.body).decode()}
                self._log.write(json.dumps(line).encode() + b"\n")
                self._log.flush()
                os.fsync(self._log.fileno())
            self.requests.append(received)
            self._arrived.notify_all()
        return received

    def leave(self, received: Received) -> None:
        """Count it out; before its answer, which lets the next request come."""
        with self._arrived:
            self._crowds[received.target] -= 1

    def wait_for(self, count: int, timeout: float = 10) -> list[Received]:
        """Wait until that many requests have arrived, and give them."""
        with self._arrived:
            arrived = self._arrived.wait_for(lambda: len(self.requests) >= count, timeout)
            assert arrived, f"{len(self.requests)} of {count} requests arrived in {timeout} s"
            return list(self.requests)

    def release(self) -> None:
        """Let every held request have its answer, and hold none from now on."""
        self._released.set()

    def hold(self, answer: Answer) -> None:
        if answer.hold:
            self._released.wait()
        elif answer.delay:
            self._released.wait(answer.delay)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.connections += 1
        self._open.add(connection)
        return connection, address

    def wrap(self, connection: socket.socket) -> socket.socket:
        return self._tls.wrap_socket(connection, server_side=True) if self._tls else connection

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients of tests go away in the middle of things."""

    def __exit__(self, *_: object) -> None:
        self.release()
        self.shutdown()
        self.server_close()
        for connection in list(self._open):
            self.shutdown_request(connection)
        if self._log:
            self._log.close()

    def __enter__(self) -> Self:
        return self


class _Connection(socketserver.BaseRequestHandler):
    server: Receiver

    def handle(self) -> None:
        connection = self.server.wrap(self.request)
        with connection, connection.makefile("rb") as stream:
            while received := self._read(stream):
                if received.target.startswith("/-/"):
                    answer = self._control(received)
                else:
                    received = self.server.record(received)
                    answer = self.server.script(received)
                    self.server.hold(answer)
                    self.server.leave(received)
                if not self._answer(connection, answer):
                    return

    def _read(self, stream: Any) -> Received | None:
        method, _, rest = stream.readline().decode("latin-1").partition(" ")
        if not rest:
            return None
        headers = []
        while (line := stream.readline().decode("latin-1").rstrip("\r\n")) != "":
            name, _, value = line.partition(":")
            headers.append((name, value.strip()))
        length = next((int(v) for k, v in headers if k.lower() == "content-length"), 0)
        body = stream.read(length)
        target = rest.rpartition(" ")[0]
        return Received(time.time(), method, target, tuple(headers), body)

    def _control(self, received: Received) -> Answer:
        if received.target == "/-/script":
            self.server.script = read_script(received.body.decode())
        else:
            self.server.release()
        return Answer(204)

    def _answer(self, connection: socket.socket, answer: Answer) -> bool:
        phrase = HTTPStatus(answer.status).phrase if answer.status in set(HTTPStatus) else ""
        head = f"HTTP/1.1 {answer.status} {phrase}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
        if answer.status != HTTPStatus.NO_CONTENT:
            head += f"Content-Length: {len(answer.body) + (answer.end == 'in_body')}\r\n"
        whole = head.encode("latin-1") + b"\r\n" + answer.body
        sent = {"": whole, "before_head": b"", "in_head": whole[:20], "in_body": whole}
        connection.sendall(sent[answer.end])
        if answer.end and answer.reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return not answer.end


def main() -> None:
    """Run until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--script", type=read_script, default="200")
    options = parser.parse_args()
    with Receiver(options.script, port=options.port, log=options.log) as receiver:
        print(receiver.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
