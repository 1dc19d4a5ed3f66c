"""What a subscription may be sent to: its URL, judged as the sender will read it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlsplit

import idna
from urllib3.util import Url, parse_url

from fencepost.egress import Network, read_address, refusal
from fencepost.errors import InvalidInputError

MAX_URL_CHARACTERS: Final = 2048

_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:@%]+)(?::(?P<port>[0-9]+))?")
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMERIC_LABEL: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

# No look-up is made for these: what a local hosts file says about them is no news (RFC 6761).
_LOOPBACK_NAMES: Final = {
    "localhost": "127.0.0.1",
    "localhost.localdomain": "127.0.0.1",
    "ip6-localhost": "::1",
    "ip6-loopback": "::1",
}
_METADATA_NAMES: Final = frozenset({"metadata.google.internal", "metadata.goog"})

# The WHATWG's bad ports (fetch.spec.whatwg.org, "port blocking"), then data stores and control
# planes that understand, or obey, an HTTP request. None lies where systems take ports for
# programs that ask for any (32768 and above).
# fmt: off
_FORBIDDEN_PORTS: Final = frozenset({
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
    103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
    512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
    995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668,
    6669, 6679, 6697, 10080,
    445, 1433, 1521, 2181, 2375, 2376, 2377, 2379, 2380, 3306, 3389, 4369, 5432, 5433, 5672, 5900,
    5984, 6379, 6380, 6432, 8500, 9042, 9092, 9200, 9300, 10250, 10255, 11211, 25672, 27017, 27018,
    27019,
})
# fmt: on


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A URL that may be sent to, as far as can be told without looking its host up."""

    url: str = field(repr=False)
    """What is requested: scheme and host in lower case, path and query percent-encoded."""
    scheme: str
    host: str
    """A name or a numeric address, without brackets."""
    port: int
    origin: str
    """``scheme://host``, and ``:port`` where it is not the scheme's own."""
    masked: str
    """The origin, and the path with what may be a token hidden; safe to show and to log."""


def check_url(
    text: object, *, allow_http: bool, allow_networks: Iterable[Network] = ()
) -> Endpoint:
    """Judge a URL when it is written, and again whenever it is sent to.

    Two parsers have to read it alike, ``urllib3`` (which connects) and ``urllib.parse``, and a
    third, strict reading of the host has to agree: what parsers disagree about is how requests
    are made to go where no check looked.

    Args:
        text: as the user wrote it.
        allow_http: whether plain ``http`` is accepted (``FENCEPOST_ALLOW_HTTP``).
        allow_networks: exemptions from the address ban (``FENCEPOST_ALLOW_NETWORKS``).

    Raises:
        InvalidInputError: field ``url``; the message never repeats the URL.
    """
    if not isinstance(text, str) or not text:
        raise _invalid("give the URL that receives the events")
    _check_characters(text)
    split, parsed = _parse_twice(text)
    if max(len(text), len(parsed.url)) > MAX_URL_CHARACTERS:
        raise _invalid(f"longer than {MAX_URL_CHARACTERS} characters")
    scheme = _check_scheme(split.scheme, allow_http=allow_http)
    host, port = _check_authority(split.netloc)
    if host != (split.hostname or "") or host != (parsed.host or "").strip("[]").lower():
        raise _invalid("the host can be read in two ways")
    if split.username is not None or parsed.auth is not None:
        raise _invalid("a user name or password does not belong here; use a custom header")
    _check_host(host, tuple(allow_networks))
    if port is None:
        port = _DEFAULT_PORTS[scheme]
    if port in _FORBIDDEN_PORTS:
        raise _invalid(f"port {port} belongs to another service, not to a webhook receiver")
    shown = f"[{host}]" if ":" in host else host
    origin = f"{scheme}://{shown}" + ("" if port == _DEFAULT_PORTS[scheme] else f":{port}")
    masked = origin + mask_path(parsed.path or "") + ("" if parsed.query is None else "?***")
    return Endpoint(parsed.url, scheme, host, port, origin, masked)


def known_address(host: str) -> str | None:
    """Give the address of a host that needs no look-up: numeric, or a name of this machine."""
    address = read_address(host)
    if address is not None:
        return str(address)
    if host.endswith(".localhost"):
        return "127.0.0.1"
    return _LOOPBACK_NAMES.get(host)


def mask_path(path: str) -> str:
    """Hide every segment of a path that may be a token: better one too many."""
    return "/".join("***" if _may_be_token(segment) else segment for segment in path.split("/"))


def _may_be_token(segment: str) -> bool:
    words = re.split(r"[-_.]", segment)
    has_digit = any(letter.isdigit() for letter in segment)
    mixes_case = segment.lower() != segment != segment.upper()
    longest = max(map(len, words))
    return (
        (len(segment) >= 8 and has_digit)  # noqa: PLR2004 - shorter ones are v2, 2026, order2
        or (len(segment) >= 12 and mixes_case)  # noqa: PLR2004
        or longest >= 20  # noqa: PLR2004 - no word of a language
        or bool(set(segment) & set("%=:;,@!$&'()*+~"))
    )


def _check_characters(text: str) -> None:
    if any(letter <= " " or letter == "\x7f" for letter in text):
        raise _invalid("no space or control character may be in it; percent-encode it")
    if not text.isascii():
        raise _invalid(_say_in_ascii(text))
    if "\\" in text:
        raise _invalid("no backslash may be in it")
    if "#" in text:
        raise _invalid("a fragment (#…) is never sent; leave it out")


def _say_in_ascii(text: str) -> str:
    try:
        host = urlsplit(text).hostname or ""
        if not host.isascii():
            return f"write the host in its ASCII form, {idna.encode(host).decode('ascii')}"
    except (ValueError, UnicodeError):
        return "the host is no name that can be looked up"
    return "percent-encode what is not ASCII"


def _parse_twice(text: str) -> tuple[SplitResult, Url]:
    try:
        split, parsed = urlsplit(text), parse_url(text)
    except ValueError:  # urllib3's LocationParseError is one as well
        raise _invalid("this is not a URL such as https://example.com/webhooks") from None
    if not split.netloc:
        raise _invalid("it needs a scheme and a host: https://example.com/webhooks")
    return split, parsed


def _check_scheme(scheme: str, *, allow_http: bool) -> str:
    if scheme == "https" or (scheme == "http" and allow_http):
        return scheme
    if scheme == "http":
        raise _invalid("use https (plain http is accepted only where FENCEPOST_ALLOW_HTTP=1)")
    raise _invalid("a URL must begin with https://")


def _check_authority(netloc: str) -> tuple[str, int | None]:
    if "@" in netloc:
        raise _invalid("a user name or password does not belong here; use a custom header")
    found = _AUTHORITY.fullmatch(netloc)
    if found is None:
        raise _invalid("the part between // and the path is not a host, or host:port")
    port = found["port"]
    if port is not None and (port.startswith("0") or len(port) > 5 or int(port) > 65535):  # noqa: PLR2004
        raise _invalid("the port is not a number from 1 to 65535")
    return found["host"].strip("[]").lower(), None if port is None else int(port)


def _check_host(host: str, allow_networks: tuple[Network, ...]) -> None:
    address = known_address(host)
    if address is not None:
        why = refusal(address, allow_networks=allow_networks)
        if why is not None:
            raise _invalid(f"{host} is {why} (see FENCEPOST_ALLOW_NETWORKS)")
        return
    labels = host.split(".")
    if ":" in host or _NUMERIC_LABEL.fullmatch(labels[-1]):
        raise _invalid("write a numeric host in full, as in 192.0.2.1")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):  # noqa: PLR2004 - RFC 1035
        raise _invalid("the host is no name that can be looked up")
    for label in labels:
        if label.startswith("xn--"):
            _check_punycode(label)
    if host in _METADATA_NAMES:
        raise _invalid(f"{host} is a cloud metadata service")


def _check_punycode(label: str) -> None:
    try:
        idna.decode(label, strict=True)
    except (ValueError, UnicodeError):
        raise _invalid("the host is no valid internationalised name") from None


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError("url", message)
