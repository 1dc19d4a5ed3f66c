"""A request as the bytes that leave, for a transport that writes them itself."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from fencepost.egress import Network
from fencepost.endpoints import Endpoint
from fencepost.model import Outgoing
from worker.transport.sendable import check_sendable, url_judge


class RequestWriter:
    """Writes requests: the same ones as the other transport sends.

    Args:
        allow_http: whether plain ``http`` is sent to.
        allow_networks: exemptions from the ban of literal addresses.
    """

    def __init__(self, *, allow_http: bool, allow_networks: Iterable[Network]) -> None:
        judge = url_judge(allow_http=allow_http, allow_networks=allow_networks)

        @lru_cache(maxsize=4096)
        def target(url: str) -> tuple[Endpoint, str]:
            endpoint = judge(url)
            return endpoint, _first_lines(endpoint)

        self._target = target

    def write(self, outgoing: Outgoing) -> tuple[Endpoint, bytes]:
        """Judge a request; give where it goes, and all of its bytes.

        Raises:
            InvalidInputError: its URL or a header of it cannot be sent.
        """
        check_sendable(outgoing.headers)
        return self.compose(outgoing.url, outgoing.headers, outgoing.body)

    def compose(
        self, url: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> tuple[Endpoint, bytes]:
        """Do the same with headers that are judged already.

        Raises:
            InvalidInputError: the URL cannot be sent to.
        """
        endpoint, first_lines = self._target(url)
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
        head = f"{first_lines}{lines}Content-Length: {len(body)}\r\n\r\n"
        return endpoint, head.encode("ascii") + body


def _first_lines(endpoint: Endpoint) -> str:
    split = urlsplit(endpoint.url)
    path = split.path or "/"
    target = f"{path}?{split.query}" if split.query else path
    host = endpoint.origin.removeprefix(f"{endpoint.scheme}://")
    return f"POST {target} HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: identity\r\n"
