"""What ``fencepost demo`` shows: three receivers on this machine, and something to send them."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver does with a request, after ``delay`` seconds."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A receiver to be: its name, what it listens to, and how it answers.

    Attributes:
        name: of the receiver and of its subscription.
        event_types: globs.
        terms: fields of its subscription besides, with delays short enough to watch.
        answer: from ``webhook-id`` and ``Fencepost-Attempt`` to what it does; it must not
            depend on anything else, so that a demo is the same each time.
    """

    name: str
    event_types: Sequence[str]
    terms: Mapping[str, object]
    answer: Callable[[str, int], Answer]


def _chance(event_id: str) -> float:
    """Draw a number from 0 to 1 that is the event's for ever."""
    return int.from_bytes(hashlib.sha256(event_id.encode()).digest()[:4]) / 2**32


def _well(event_id: str, _attempt: int) -> Answer:
    return Answer(200, b'{"received": true}\n', delay=0.005 + 0.06 * _chance(event_id))


_THROTTLED, _FAILING, _QUICK = 0.15, 0.6, 0.9  # shares of the requests, adding up
_TRIES = 2  # that may fail


def _flaky(event_id: str, attempt: int) -> Answer:
    luck = _chance(f"{event_id} {attempt}")
    if attempt == 1 and luck < _THROTTLED:
        return Answer(429, b"too many requests\n", headers={"Retry-After": "3"})
    if attempt <= _TRIES and luck < _FAILING:
        return Answer(503, b"the upstream is restarting\n", delay=0.02)
    return Answer(204, delay=0.01 if luck < _QUICK else 1.5)


def _down(_event_id: str, _attempt: int) -> Answer:
    return Answer(500, b"down for maintenance since Tuesday\n")


BEHAVIOURS: Final = (
    Behaviour("demo-well", ("*",), {}, _well),
    Behaviour(
        "demo-flaky",
        ("invoice.*", "order.*"),
        {"backoff_base_seconds": 2, "backoff_cap_seconds": 8, "max_attempts": 5},
        _flaky,
    ),
    Behaviour(
        "demo-down",
        ("invoice.*",),
        {"backoff_base_seconds": 1, "backoff_cap_seconds": 4, "max_attempts": 4},
        _down,
    ),
)


class Receiver:
    """An HTTP server on a free port of this machine, served by threads of this process.

    ``POST /mend`` makes it answer 200 from then on: what is in the DLQ can be replayed then.
    """

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self._stopping = threading.Event()
        self._mended = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self._answer, self._stopping))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name=behaviour.name, daemon=True
        )

    @property
    def url(self) -> str:
        """Where it takes webhooks."""
        return f"http://127.0.0.1:{self._server.server_port}/webhooks"

    @property
    def mend_url(self) -> str:
        """Where a POST makes it well."""
        return f"http://127.0.0.1:{self._server.server_port}/mend"

    def start(self) -> None:
        """Serve until ``stop``."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more; requests that are being answered are cut short."""
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, path: str, event_id: str, attempt: int) -> Answer:
        if path == "/mend":
            self._mended.set()
            return Answer(200, f"{self.behaviour.name} is well again\n".encode())
        if self._mended.is_set():
            return _well(event_id, attempt)
        return self.behaviour.answer(event_id, attempt)


@contextmanager
def receivers() -> Iterator[list[Receiver]]:
    """Run all three for as long as the block takes."""
    with ExitStack() as stack:
        found = [Receiver(behaviour) for behaviour in BEHAVIOURS]
        for receiver in found:
            receiver.start()
            stack.callback(receiver.stop)
        yield found


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def _handler(
    answer_to: Callable[[str, str, int], Answer], stopping: threading.Event
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two writes
        timeout = 60  # of an idle connection

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            event_id = self.headers.get("webhook-id") or ""
            attempt = int(self.headers.get("Fencepost-Attempt") or 1)
            answer = answer_to(self.path, event_id, attempt)
            stopping.wait(answer.delay)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status != HTTPStatus.NO_CONTENT:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: Any) -> None:  # noqa: ANN401
            """Say nothing: the dashboard tells the story."""

    return Handler


def make_event(random: Random) -> tuple[str, dict[str, object]]:
    """Invent an event: its type and its payload."""
    customer = f"cus_{random.randrange(1000):03d}"
    amount = random.randrange(500, 50_000)
    kind, about = random.choice(
        (
            ("order.created", {"items": random.randrange(1, 6), "total": amount}),
            ("order.shipped", {"carrier": random.choice(("dhl", "ups", "post"))}),
            ("invoice.paid", {"amount": amount, "currency": "EUR"}),
            ("customer.updated", {"fields": random.sample(("email", "name", "address"), 2)}),
        )
    )
    number = uuid.UUID(int=random.getrandbits(128), version=4)
    return kind, {"id": str(number), "customer": customer, **about}
