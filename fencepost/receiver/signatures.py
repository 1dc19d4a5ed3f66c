"""Tell whether a request is from the Fencepost that shares a secret with us, and is of now.

This file needs the standard library and nothing else, Fencepost included: who wants no other part
of it may copy the file.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import ClassVar, Final, Literal, Protocol, TypeAlias

Scheme: TypeAlias = Literal["standard", "stripe", "prefixed"]

_PREFIX: Final = "whsec_"
_KEY_BYTES: Final = range(24, 65)
_TEXT_SECRET: Final = re.compile(r"[!-~]{24,128}")
_MESSAGE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")
_SECONDS: Final = re.compile(r"[0-9]{1,12}")


class _HasItems(Protocol):
    """A mapping, and what is nearly one, such as the headers of Flask."""

    def items(self) -> Iterable[tuple[str, str]]: ...


Headers: TypeAlias = _HasItems | Iterable[tuple[str, str]]
"""Whatever has ``items()``, or pairs; names in any letter case."""


class RefusedError(Exception):
    """The base of every reason not to act on a request; the message may be answered.

    Attributes:
        status: the HTTP status to answer with.
    """

    status: ClassVar[int] = 400


class MissingHeaderError(RefusedError):
    """A header is not there that every request of ours carries."""


class MalformedHeaderError(RefusedError):
    """A header is there, and cannot be read."""


class NoMatchError(RefusedError):
    """No signature was made with one of our secrets, over these bytes."""

    status = 401


class TooOldError(RefusedError):
    """It was signed with our secret, too long ago: replayed, or a clock is wrong."""

    status = 401


class TooNewError(RefusedError):
    """It was signed with our secret, at a moment yet to come: a clock is wrong."""

    status = 401


def verify(
    body: bytes,
    headers: Headers,
    secrets: str | Iterable[str],
    *,
    scheme: Scheme = "standard",
    header: str | None = None,
    tolerance: timedelta = timedelta(minutes=5),
    now: float | None = None,
) -> None:
    """Return if a request is authentic and of now; raise if it is not.

    Args:
        body: the bytes as they came, before anything parsed or decoded them.
        headers: the request's.
        secrets: the endpoint's secret, or all that are valid while one replaces another.
        scheme: the subscription's.
        header: where the signature is, if the subscription chose another header.
        tolerance: how far the time of the signature may be off, in the past and in the future.
        now: seconds since 1970; None: what the clock says.

    Raises:
        MissingHeaderError: a header of the scheme is not there.
        MalformedHeaderError: one cannot be read, or came twice.
        NoMatchError: another secret, or other bytes.
        TooOldError: the signature matches, and is older than ``tolerance``.
        TooNewError: the signature matches, and is that much in the future.
        ValueError: a secret of ours cannot be one of this scheme, or there is none: no fault of
            the request.
    """
    keys = [_key(secret, scheme) for secret in _as_list(secrets)]
    if not keys:
        raise ValueError("there is no secret to verify with")
    if scheme == "standard":
        timestamp, signed, candidates = _read_standard(headers)
    else:
        timestamp, candidates = _read_timestamped(headers, header or "Fencepost-Signature")
        signed = f"{timestamp}." if scheme == "stripe" else f"t={timestamp}."
    if not _is_any(candidates, keys, signed.encode() + body, as_hex=scheme != "standard"):
        raise NoMatchError("no signature matches: another secret, or other bytes than were signed")
    age = (time.time() if now is None else now) - int(timestamp)
    if age > tolerance.total_seconds():
        raise TooOldError(f"signed {age:.0f} seconds ago")
    if -age > tolerance.total_seconds():
        raise TooNewError(f"signed {-age:.0f} seconds in the future")


def header_of(headers: Headers, name: str) -> str:
    """Give the value of a header, whatever the letter case of its name.

    Raises:
        MissingHeaderError: it is not there.
        MalformedHeaderError: it is there more than once, so that two readers might differ.
    """
    pairs = headers.items() if hasattr(headers, "items") else headers
    values = [value for key, value in pairs if key.lower() == name.lower()]
    if not values:
        raise MissingHeaderError(f"there is no header {name}")
    if len(values) > 1:
        raise MalformedHeaderError(f"the header {name} came {len(values)} times")
    return values[0]


def message_id_of(headers: Headers) -> str:
    """Give ``webhook-id``, by which a receiver knows an event that it has met before.

    A dot in it could be the one that ends it where it is signed: ``id.timestamp.body``. Part of a
    body could then pass for a timestamp, and one signature would be good for two ids.

    Raises:
        MissingHeaderError: it is not there.
        MalformedHeaderError: it is not made of letters, digits, ``_`` and ``-``.
    """
    message_id = header_of(headers, "webhook-id")
    if not _MESSAGE_ID.fullmatch(message_id):
        raise MalformedHeaderError("the header webhook-id is no id: letters, digits, _ and - alone")
    return message_id


def _read_standard(headers: Headers) -> tuple[str, str, list[str]]:
    """Read the three headers of Standard Webhooks: when, what was signed before the body, how."""
    message_id = message_id_of(headers)
    timestamp = _seconds(header_of(headers, "webhook-timestamp"), "webhook-timestamp")
    entries = header_of(headers, "webhook-signature").split(" ")
    return timestamp, f"{message_id}.{timestamp}.", _versions(entries, ",", "webhook-signature")


def _read_timestamped(headers: Headers, name: str) -> tuple[str, list[str]]:
    """Read ``t=…,v1=…,v1=…``."""
    entries = header_of(headers, name).split(",")
    times = [entry.removeprefix("t=") for entry in entries if entry.startswith("t=")]
    if len(times) != 1:
        raise MalformedHeaderError(f"the header {name} has {len(times)} times t=, not one")
    return _seconds(times[0], name), _versions(entries, "=", name)


def _versions(entries: list[str], separator: str, name: str) -> list[str]:
    """Give the signatures of version 1; those of others are for others."""
    mark = f"v1{separator}"
    found = [entry.removeprefix(mark) for entry in entries if entry.startswith(mark)]
    if not found:
        raise MalformedHeaderError(f"the header {name} has no signature {mark}…")
    return found


def _seconds(text: str, name: str) -> str:
    if not _SECONDS.fullmatch(text):
        raise MalformedHeaderError(f"the header {name} has no time in seconds since 1970")
    return text


def _is_any(candidates: list[str], keys: list[bytes], signed: bytes, *, as_hex: bool) -> bool:
    """Compare each with each: how long it takes does not tell which, or how much, is right."""
    found = False
    for key in keys:
        digest = hmac.digest(key, signed, "sha256")
        expected = digest.hex().encode() if as_hex else base64.b64encode(digest)
        for candidate in candidates:
            found |= hmac.compare_digest(expected, candidate.encode("utf-8", "replace"))
    return found


def _as_list(secrets: str | Iterable[str]) -> list[str]:
    return [secrets] if isinstance(secrets, str) else list(secrets)


def _key(secret: str, scheme: str) -> bytes:
    """Give the bytes to sign with; a ValueError does not quote the secret."""
    if scheme == "standard":
        try:
            key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not secret.startswith(_PREFIX) or len(key) not in _KEY_BYTES:
            raise ValueError(f"a secret of the scheme 'standard' is {_PREFIX} and base64")
        return key
    if scheme not in ("stripe", "prefixed"):
        raise ValueError(f"there is no signature scheme {scheme!r}")
    if not _TEXT_SECRET.fullmatch(secret):
        raise ValueError(f"a secret of the scheme {scheme!r} is 24 to 128 visible characters")
    return secret.encode()
