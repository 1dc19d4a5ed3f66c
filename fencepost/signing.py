"""The three ways in which a request proves where it comes from.

============  =============================================  ==================================
scheme        signed with HMAC-SHA256                        key
============  =============================================  ==================================
``standard``  ``id.timestamp.body``                          the bytes in base64 after ``whsec_``
``stripe``    ``timestamp.body``                             the whole secret's characters
``prefixed``  ``t=timestamp.body``                           the whole secret's characters
============  =============================================  ==================================

Sources: Standard Webhooks 1.0; Stripe's documentation of webhook signatures; CONTRACT section 4.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets as chance
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from fencepost.errors import InvalidInputError

Scheme: TypeAlias = Literal["standard", "stripe", "prefixed"]

SCHEMES: Final[tuple[Scheme, ...]] = ("standard", "stripe", "prefixed")

DEFAULT_HEADERS: Final = MappingProxyType(
    {
        "standard": "webhook-signature",
        "stripe": "Fencepost-Signature",
        "prefixed": "Fencepost-Signature",
    }
)
"""Where the signature goes; ``stripe`` and ``prefixed`` let the subscription choose another."""

RESERVED_HEADERS: Final = frozenset({"webhook-id", "webhook-timestamp", "webhook-signature"})
"""In lower case: what no subscription may set itself, nor choose for its signature."""

_PREFIX: Final = "whsec_"
_KEY_BYTES: Final = range(24, 65)
_TEXT_SECRET: Final = re.compile(r"[!-~]{24,128}")


def generate_secret() -> str:
    """Make a secret that every scheme accepts: ``whsec_`` and base64 of 32 random bytes."""
    return _PREFIX + base64.b64encode(chance.token_bytes(32)).decode("ascii")


def check_secret(secret: str, scheme: str = "standard") -> None:
    """Accept a secret that somebody brings along, for one scheme.

    ``standard`` takes ``whsec_`` and base64 of 24 to 64 bytes. The other two use the text as it
    stands: 24 to 128 visible ASCII characters, so that a receiver can move here with its secret.

    Raises:
        InvalidInputError: field ``secret``; the message does not quote it.
    """
    if scheme == "standard":
        if _standard_key(secret) is None:
            raise InvalidInputError(
                "secret",
                f"a secret must be {_PREFIX} followed by base64 of {_KEY_BYTES.start} to"
                f" {_KEY_BYTES.stop - 1} bytes",
            )
    elif not _TEXT_SECRET.fullmatch(secret):
        raise InvalidInputError(
            "secret", "a secret must be 24 to 128 visible ASCII characters, without spaces"
        )


def header_name(scheme: str, chosen: str | None) -> str:
    """Say which header carries the signature.

    Args:
        scheme: one of ``SCHEMES``.
        chosen: the subscription's own name; None: the scheme's. ``standard`` has no choice.
    """
    return DEFAULT_HEADERS[scheme] if chosen is None or scheme == "standard" else chosen


def sign(
    scheme: str,
    *,
    secrets: Sequence[str],
    message_id: str,
    timestamp: int,
    body: bytes,
    header: str | None = None,
) -> tuple[str, str]:
    """Sign one request with every secret that is valid now.

    Args:
        scheme: one of ``SCHEMES``.
        secrets: at least one, newest first; each signs, so that receivers may hold any of them.
        message_id: what ``webhook-id`` says, made of letters, digits, ``_`` and ``-``.
        timestamp: what ``webhook-timestamp`` says: seconds since 1970, of this attempt.
        body: the exact bytes that are sent.
        header: the subscription's name for the header; None: the scheme's.

    Returns:
        The header's name and value.

    Raises:
        ValueError: no secret, an unknown scheme, or a secret that ``check_secret`` refuses.
    """
    if not secrets:
        raise ValueError("a request needs at least one secret to be signed with")
    match scheme:
        case "standard":
            signed = f"{message_id}.{timestamp}.".encode() + body
            value = " ".join(f"v1,{_base64_hmac(secret, signed)}" for secret in secrets)
        case "stripe":
            value = _timestamped(secrets, timestamp, f"{timestamp}.".encode() + body)
        case "prefixed":
            value = _timestamped(secrets, timestamp, f"t={timestamp}.".encode() + body)
        case _:
            raise ValueError(f"there is no signature scheme {scheme!r}")
    return header_name(scheme, header), value


def _base64_hmac(secret: str, signed: bytes) -> str:
    key = _standard_key(secret)
    if key is None:
        raise ValueError("this secret cannot sign in the scheme 'standard'")
    return base64.b64encode(hmac.digest(key, signed, "sha256")).decode("ascii")


def _timestamped(secrets: Sequence[str], timestamp: int, signed: bytes) -> str:
    """Receivers compare lower-case hex and split at commas: no space may follow one."""
    digests = (hmac.digest(secret.encode(), signed, "sha256").hex() for secret in secrets)
    return ",".join((f"t={timestamp}", *(f"v1={digest}" for digest in digests)))


def _standard_key(secret: str) -> bytes | None:
    if not secret.startswith(_PREFIX):
        return None
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) in _KEY_BYTES else None
