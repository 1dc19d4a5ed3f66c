"""What is judged anew just before a request leaves: its URL and its headers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from fencepost.custom_headers import is_name, is_value
from fencepost.egress import Network
from fencepost.endpoints import Endpoint, check_url
from fencepost.errors import InvalidInputError

# The same few in every request.
_is_known_name = lru_cache(maxsize=4096)(is_name)


def url_judge(*, allow_http: bool, allow_networks: Iterable[Network]) -> Callable[[str], Endpoint]:
    """Make the judge of URLs: it remembers those it has accepted, and raises as ``check_url``."""
    networks = tuple(allow_networks)

    @lru_cache(maxsize=4096)
    def judge(url: str) -> Endpoint:
        return check_url(url, allow_http=allow_http, allow_networks=networks)

    return judge


def check_sendable(headers: tuple[tuple[str, str], ...]) -> None:
    """Judge the headers of a request, whoever chose them.

    Raises:
        InvalidInputError: field ``headers``; one of them would make another request of it.
    """
    if len({name.lower() for name, _ in headers}) < len(headers):
        raise InvalidInputError("headers", "a header is there twice")
    for name, value in headers:
        if not _is_known_name(name) or not is_value(value):
            raise InvalidInputError("headers", "a header cannot be sent as it is")
