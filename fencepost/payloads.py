"""What may be published: event types, content types, keys, and payloads that nobody rewrites."""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Final, NoReturn

from fencepost.errors import InvalidInputError
from fencepost.keyring import Keyring

JSON: Final = "application/json"
MAX_DEPTH: Final = 64

_EVENT_TYPE: Final = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
_MAX_EVENT_TYPE: Final = 128
_OURS: Final = "fencepost."

_TOKEN: Final = r"[A-Za-z0-9!#$&^_.+-]+"  # noqa: S105  # as in RFC 9110, not a secret
_MEDIA_TYPE: Final = re.compile(
    rf'{_TOKEN}/{_TOKEN}( *; *{_TOKEN}=({_TOKEN}|"[ !#-\[\]-~]*"))*'  # what the database checks too
)
_MAX_CONTENT_TYPE: Final = 255
_CHARSET: Final = re.compile(r'; *charset="?([^;"]*)', re.IGNORECASE)

_KEY: Final = re.compile(r"[!-~]{1,255}")

# A string ends at its quote or, unfinished, at the end: so this never looks at a byte twice.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class InvalidJsonError(InvalidInputError):
    """The payload says it is JSON and is not."""


class PayloadTooLargeError(InvalidInputError):
    """The payload is larger than ``FENCEPOST_MAX_PAYLOAD_BYTES``."""


def check_event_type(event_type: str) -> None:
    """Accept words of letters, digits and ``_`` with dots between, at most 128 characters.

    Raises:
        InvalidInputError: field ``event_type``.
    """
    if len(event_type) > _MAX_EVENT_TYPE or not _EVENT_TYPE.fullmatch(event_type):
        raise InvalidInputError(
            "event_type",
            "an event type must be words of letters, digits and _ with dots between,"
            f" at most {_MAX_EVENT_TYPE} characters",
        )
    if event_type.startswith(_OURS):
        raise InvalidInputError("event_type", f"event types under {_OURS} are Fencepost's own")


def check_content_type(content_type: str) -> None:
    """Accept a media type with parameters, as it will stand in the request's header.

    Raises:
        InvalidInputError: field ``content_type``.
    """
    if len(content_type) > _MAX_CONTENT_TYPE or not _MEDIA_TYPE.fullmatch(content_type):
        raise InvalidInputError(
            "content_type",
            "a content type must be a media type such as application/json,"
            f" at most {_MAX_CONTENT_TYPE} characters",
        )
    charset = _CHARSET.search(content_type) if is_json(content_type) else None
    if charset and charset[1].strip().lower() not in {"utf-8", "utf8"}:
        raise InvalidInputError("content_type", "JSON must be UTF-8; other charsets are refused")


def check_idempotency_key(key: str) -> None:
    """Accept 1 to 255 visible ASCII characters.

    Raises:
        InvalidInputError: field ``idempotency_key``.
    """
    if not _KEY.fullmatch(key):
        raise InvalidInputError(
            "idempotency_key",
            "an idempotency key must be 1 to 255 visible ASCII characters, without spaces",
        )


def is_json(content_type: str) -> bool:
    """Tell whether a payload of this type is checked: only ``application/json`` is."""
    return content_type.partition(";")[0].strip().lower() == JSON


def check_payload(payload: bytes, content_type: str, *, max_bytes: int) -> None:
    """Accept a payload as it stands; it is stored, signed and sent byte for byte.

    JSON must be what RFC 8259 says, in UTF-8, at most 64 deep. What it means is the receivers'
    business: duplicate keys, lone values and numbers of any size pass. All other content types
    are opaque, and may be empty.

    Raises:
        PayloadTooLargeError: field ``payload``.
        InvalidJsonError: field ``payload``.
    """
    if len(payload) > max_bytes:
        raise PayloadTooLargeError(
            "payload", f"the payload has {len(payload)} bytes, the limit is {max_bytes}"
        )
    if is_json(content_type):
        _check_json(payload)


def encode(payload: object, content_type: str) -> bytes:
    """Give a payload's bytes: its own, or compact JSON in UTF-8 of anything else.

    A ``str`` is a value like any other and becomes a JSON string; JSON text that is to go out as
    it is must be given as bytes. Half a surrogate pair stays the escape that it came from.

    Raises:
        InvalidInputError: field ``payload``: it cannot be written as JSON, or is no bytes where
            the content type asks for something else.
    """
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    if not is_json(content_type):
        raise InvalidInputError("payload", f"a payload must be bytes, unless it is {JSON}")
    try:
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise InvalidInputError("payload", _TOO_DEEP) from None
    except (TypeError, ValueError) as error:
        # Python's message names a type or says what is wrong with a number, but quotes no value.
        reason = str(error).partition(":")[0]
        raise InvalidInputError("payload", f"the payload is not JSON-able: {reason}") from None
    return text.encode("utf-8", "backslashreplace")


def fingerprint(keyring: Keyring, *, event_type: str, content_type: str, payload: bytes) -> bytes:
    """Make what tells, under one idempotency key, the same event from another one."""
    return keyring.mac(*_parts(event_type, content_type, payload))


def matches_fingerprint(
    keyring: Keyring, mac: bytes, *, event_type: str, content_type: str, payload: bytes
) -> bool:
    """Tell whether ``mac`` is the fingerprint of this event.

    Raises:
        KeyUnavailableError: the key that made it is not in the keyring.
        UndecryptableError: it is no fingerprint.
    """
    return keyring.verify_mac(mac, *_parts(event_type, content_type, payload))


def _parts(event_type: str, content_type: str, payload: bytes) -> tuple[str | bytes, ...]:
    return "fencepost.idempotency.v1", event_type, content_type, payload


_TOO_DEEP: Final = f"JSON may be nested {MAX_DEPTH} deep at most"


def _check_json(payload: bytes) -> None:
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidJsonError(
            "payload", f"JSON must be UTF-8; the byte at {error.start} is not"
        ) from None
    if text.startswith("\ufeff"):
        raise InvalidJsonError("payload", "JSON must not begin with a byte order mark")
    # Before parsing, which recurses as deep as the text says.
    if _depth(payload) > MAX_DEPTH:
        raise InvalidJsonError("payload", _TOO_DEEP)
    try:
        _DECODER.decode(text)
    except _ConstantError:
        raise InvalidJsonError("payload", "NaN and Infinity are not JSON") from None
    except json.JSONDecodeError as error:
        raise InvalidJsonError(
            "payload", f"this is not JSON: {error.msg} at character {error.pos + 1}"
        ) from None


def _depth(payload: bytes) -> int:
    """Find how deep brackets are nested; where there are few, their number is answer enough."""
    opened = payload.count(b"[") + payload.count(b"{")
    if opened <= MAX_DEPTH:
        return opened
    brackets = _STRING.sub(b"", payload).translate(None, delete=_NOT_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


class _ConstantError(Exception):
    """Python's JSON knows NaN and Infinity, RFC 8259 does not."""


def _refuse_constant(_name: str) -> NoReturn:
    raise _ConstantError


# ``float`` reads any number of digits; ``int`` refuses more than 4,300.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=float)
