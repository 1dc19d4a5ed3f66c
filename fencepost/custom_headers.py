"""Which headers a subscription may add to its requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from fencepost.errors import InvalidInputError

MAX_HEADERS: Final = 20
MAX_HEADER_BYTES: Final = 4096
MAX_NAME_CHARACTERS: Final = 64

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_VALUE: Final = re.compile(r"([!-~]([ -~]*[!-~])?)?")

# Ours, those that frame the message, and those that speak about the connection (hop-by-hop):
# a second Host or Transfer-Encoding makes two servers see two different requests.
_RESERVED: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "cookie",
        "date",
        "expect",
        "forwarded",
        "host",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)
_RESERVED_PREFIXES: Final = ("content-", "fencepost-", "proxy-", "webhook-", "x-forwarded-")


def check_headers(headers: Mapping[str, str], *, signature_header: str | None = None) -> None:
    """Judge a subscription's custom headers when they are written, and when they are sent.

    Args:
        headers: name to value.
        signature_header: the name that the subscription chose for its signature, which no
            custom header may take.

    Raises:
        InvalidInputError: field ``headers``; the message names the header, never its value.
    """
    if not isinstance(headers, Mapping):
        raise _invalid("give an object of names and values")
    if len(headers) > MAX_HEADERS:
        raise _invalid(f"more than {MAX_HEADERS} headers")
    taken = {signature_header.lower()} if signature_header else set()
    size = 0
    for name, value in headers.items():
        shown = _check_name(name)
        lowered = name.lower()
        if is_reserved(name) or (signature_header and lowered == signature_header.lower()):
            raise _invalid(f"{shown} is set by Fencepost")
        if lowered in taken:
            raise _invalid(f"{shown} is there twice")
        taken.add(lowered)
        if not is_value(value):
            raise _invalid(
                f"the value of {shown} may hold printable ASCII only, without a space at its ends"
            )
        size += len(name) + len(value) + len(": \r\n")
    if size > MAX_HEADER_BYTES:
        raise _invalid(f"together longer than {MAX_HEADER_BYTES} bytes")


def check_signature_header(name: object) -> None:
    """Judge the header name that a subscription chooses for its signature.

    Raises:
        InvalidInputError: field ``signature_header``.
    """
    if not is_name(name) or len(str(name)) > MAX_NAME_CHARACTERS:
        raise InvalidInputError(
            "signature_header", f"not a header name of at most {MAX_NAME_CHARACTERS} characters"
        )
    if is_reserved(str(name)) and str(name).lower() != "fencepost-signature":
        raise InvalidInputError("signature_header", f"{name} has another meaning")


def is_reserved(name: str) -> bool:
    """Say whether Fencepost or HTTP itself sets this header, in any case of its letters."""
    lowered = name.lower()
    return lowered in _RESERVED or lowered.startswith(_RESERVED_PREFIXES)


def is_name(name: object) -> bool:
    """Say whether it is a header name: an RFC 9110 token."""
    return isinstance(name, str) and _TOKEN.fullmatch(name) is not None


def is_value(value: object) -> bool:
    """Say whether it can be sent as it is: printable ASCII, no space at its ends."""
    return isinstance(value, str) and _VALUE.fullmatch(value) is not None


def _check_name(name: object) -> str:
    if not is_name(name):
        raise _invalid("a name may hold letters, digits and !#$%&'*+-.^_`|~ only")
    if len(str(name)) > MAX_NAME_CHARACTERS:
        raise _invalid(f"a name is longer than {MAX_NAME_CHARACTERS} characters")
    return str(name)


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError("headers", message)
