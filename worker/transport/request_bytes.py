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
        """Give where a request goes, and all of its bytes.

        Raises:
            InvalidInputError: its URL or a header of it cannot be sent.
        """
        endpoint, first_lines = self._target(outgoing.url)
        check_sendable(outgoing.headers)
        headers = "".join([f"{name}: {value}\r\n" for name, value in outgoing.headers])
        head = f"{first_lines}{headers}Content-Length: {len(outgoing.body)}\r\n\r\n"
        return endpoint, head.encode("ascii") + outgoing.body


def _first_lines(endpoint: Endpoint) -> str:
    split = urlsplit(endpoint.url)
    path = split.path or "/"
    target = f"{path}?{split.query}" if split.query else path
    host = endpoint.origin.removeprefix(f"{endpoint.scheme}://")
    return f"POST {target} HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: identity\r\n"
