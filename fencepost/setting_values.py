"""How the text of one setting becomes a value: strict, and never echoing a secret."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_HOST: Final = re.compile(r"\.?[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?")
_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_DECIMAL: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")

MIN_SECRET_LENGTH: Final = 32


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens; ``str()`` gives it back as it is written."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def flag(text: str) -> bool:
    """Read ``0`` or ``1``; other spellings of yes and no are refused, not guessed at."""
    if text not in {"0", "1"}:
        raise ValueError(f"must be 0 or 1, not {text!r}")
    return text == "1"


def whole(low: int, high: int) -> Callable[[str], int]:
    """Make a parser for an integer from ``low`` to ``high``."""

    def parse(text: str) -> int:
        if _WHOLE.fullmatch(text) is None or not low <= int(text) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}, not {text!r}")
        return int(text)

    return parse


def seconds(low: float, high: float) -> Callable[[str], float]:
    """Make a parser for a plain decimal number from ``low`` to ``high``."""

    def parse(text: str) -> float:
        if _DECIMAL.fullmatch(text) is None or not low <= float(text) <= high:
            raise ValueError(f"must be a number of seconds from {low:g} to {high:g}, not {text!r}")
        return float(text)

    return parse


def choice(*allowed: str) -> Callable[[str], str]:
    """Make a parser for one word of a few."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}, not {text!r}")
        return text

    return parse


def database_url(text: str) -> str:
    """Check the form of a database URL; its password must not reach a message."""
    scheme, found, rest = text.partition("://")
    if scheme not in {"postgresql", "postgres"} or not found or not rest:
        raise ValueError("must be a URL such as postgresql://user:password@host:5432/database")
    if not text.isprintable() or " " in text:
        raise ValueError("contains a space or a control character; write it as %20 and the like")
    return text


def schema(text: str) -> str:
    """Check a schema name that needs no quoting and is not PostgreSQL's own."""
    if _SCHEMA.fullmatch(text) is None or text.startswith("pg_"):
        raise ValueError(
            "must be lower-case letters, digits and underscores, at most 63, not beginning "
            f"with a digit or pg_, not {text!r}"
        )
    return text


def folder(text: str) -> Path:
    """Read a folder's path; a relative one is relative to the current directory."""
    if not text.isprintable():
        raise ValueError("contains a control character, or bytes that are not UTF-8")
    return Path(text).absolute()


def secret_key(text: str) -> str:
    """Read a secret that is long enough to sign with."""
    if len(text) < MIN_SECRET_LENGTH or not text.isascii() or not text.isprintable():
        raise ValueError(f"must be at least {MIN_SECRET_LENGTH} visible ASCII characters")
    return text


def address(text: str) -> Address:
    """Read ``host:port``; an IPv6 address stands in brackets."""
    host, found, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not found or not _is_host(bare, bracketed=bare != host):
        raise ValueError(f"must be host:port, such as 127.0.0.1:8080 or [::1]:8080, not {text!r}")
    return Address(bare, whole(0, 65535)(port))


def optional_address(text: str) -> Address | None:
    """Read ``host:port``, or ``off``."""
    return None if text == "off" else address(text)


def hosts(text: str) -> tuple[str, ...]:
    """Read host names with commas between; a leading dot stands for all subdomains."""
    names = tuple(name.strip() for name in text.split(",")) if text else ()
    for name in names:
        bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
        if not _is_host(bare, bracketed=bare != name):
            raise ValueError(f"{name!r} is not a host name (a port does not belong here)")
    return names


def networks(text: str) -> tuple[Network, ...]:
    """Read CIDR networks with commas between."""
    return tuple(_network(part.strip()) for part in text.split(",")) if text else ()


def node_name(text: str) -> str:
    """Read a name that can stand in a worker's id and in a log line."""
    if _NODE.fullmatch(text) is None:
        raise ValueError(
            f"must be at most 100 letters, digits, dots, dashes and underscores, not {text!r}"
        )
    return text


def label(text: str) -> str:
    """Read a short text that people see on every page."""
    limit = 40
    if len(text) > limit or not text.isprintable():
        raise ValueError(f"must be at most {limit} printable characters")
    return text


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        pass
    try:
        meant = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is not a network such as 10.0.0.0/8 or fd00::/8") from None
    raise ValueError(f"{text!r} has bits set beyond its prefix; is {meant} meant?")


def _is_host(text: str, *, bracketed: bool) -> bool:
    if not bracketed:
        return _HOST.fullmatch(text) is not None
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
