"""A receiver that does as little as it can, as a program: ``python responder.py --port N``.

Run by its path, so that nothing of Fencepost is imported: it is measured against.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import resource
from typing import Final, cast

_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_END: Final = b"\r\n\r\n"
_FAILING: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


class Counter:
    """How many requests were answered."""

    requests = 0


class Responder(asyncio.Protocol):
    """Reads requests of one connection and answers each at once, or never.

    Args:
        counter: counts them.
        answer: the whole answer; None: hang.
    """

    def __init__(self, counter: Counter, answer: bytes | None) -> None:
        self._counter = counter
        self._answer = answer
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer every request that is whole by now."""
        if self._answer is None:
            return
        unread, answers = self._unread + data, []
        while (head := unread.find(_END)) >= 0:
            length = _LENGTH.search(unread, 0, head + 2)
            end = head + len(_END) + (int(length[1]) if length else 0)
            if len(unread) < end:
                break
            answers.append(self._answer_to(unread))
            unread = unread[end:]
        self._unread = unread
        if answers:
            self._transport.write(b"".join(answers))

    def _answer_to(self, request: bytes) -> bytes:
        self._counter.requests += 1
        if request.startswith(b"GET /-/count "):
            body = b" 1 1 %d \n" % self._counter.requests
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
            asyncio.get_running_loop().call_soon(self._transport.close)
            return body
        return self._answer or b""


async def serve(port: int, answer: bytes | None) -> None:
    """Answer on this port for ever."""
    counter = Counter()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Responder(counter, answer), "127.0.0.1", port, backlog=8192
    )
    await server.serve_forever()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--body", type=int, default=0, help="bytes of each answer")
    parser.add_argument("--hang", action="store_true", help="never answer")
    parser.add_argument("--fail", action="store_true", help="answer 503")
    chosen = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    answer = b"HTTP/1.1 204 No Content\r\n\r\n"
    if chosen.body:
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % chosen.body + b"x" * chosen.body
    if chosen.fail:
        answer = _FAILING
    asyncio.run(serve(chosen.port, None if chosen.hang else answer))


if __name__ == "__main__":
    main()
