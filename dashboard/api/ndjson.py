"""Read a batch of events, one JSON object a line, without touching a byte of their payloads."""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from fencepost.errors import InvalidInputError

MAX_LINES: Final = 1000
DEFAULT_CONTENT_TYPE: Final = "application/json"
FIELDS: Final = frozenset(
    {"event_type", "payload", "payload_base64", "content_type", "idempotency_key"}
)

_SPACE = re.compile(r"[ \t\r\n]*")
_BLANK = re.compile(rb"[ \t\r\n]*")


class LineError(InvalidInputError):
    """One line of the batch cannot be accepted, so none is.

    Attributes:
        line: its number, from 1, blank lines counted.
        parses: False when the line is no JSON object at all.
    """

    def __init__(self, line: int, name: str, message: str, *, parses: bool = True) -> None:
        super().__init__(name, f"Line {line}: {message}")
        self.line = line
        self.parses = parses


class TooManyLinesError(InvalidInputError):
    """The batch has more lines than one request may carry; split it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of the batch, as its line says it; only its shape has been judged."""

    line: int
    event_type: str
    content_type: str
    payload: bytes = field(repr=False)
    """The exact source bytes of the value of ``payload``, or what ``payload_base64`` holds."""
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a JSON object: its value, and where that stands in the text."""

    value: object
    start: int
    end: int


def read_entries(body: bytes) -> list[Entry]:
    r"""Read every line of a batch.

    Lines end with ``\n`` or ``\r\n``; the last one need not. Blank lines are passed over, but
    those between others count as lines.

    Raises:
        LineError: a line is no object of the fields above; it says which and why.
        TooManyLinesError: there are more than 1,000.
    """
    entries: list[Entry] = []
    for number, line in enumerate(io.BytesIO(body.rstrip()), start=1):
        if number > MAX_LINES:
            message = f"A batch has at most {MAX_LINES} lines; split it into several."
            raise TooManyLinesError("body", message)
        if not _BLANK.fullmatch(line):
            entries.append(_entry(number, line))
    return entries


def _entry(number: int, line: bytes) -> Entry:
    try:
        text = line.decode("utf-8")
        members = scan_object(text)
    except UnicodeDecodeError:
        raise LineError(number, "body", "this is not UTF-8.", parses=False) from None
    except RecursionError:
        raise LineError(number, "body", "this is nested too deeply.", parses=False) from None
    except json.JSONDecodeError as error:
        message = f"{error.msg} at character {error.pos + 1}."
        raise LineError(number, "body", message, parses=False) from None
    except DuplicateKeyError as error:
        raise LineError(number, error.key, "this field is there twice.") from None
    if unknown := sorted(members.keys() - FIELDS):
        raise LineError(number, unknown[0], "there is no such field.")
    return Entry(
        line=number,
        event_type=_text(number, members, "event_type"),
        content_type=_text(number, members, "content_type", default=DEFAULT_CONTENT_TYPE),
        payload=_payload(number, members, text),
        idempotency_key=_key(number, members),
    )


def _payload(number: int, members: Mapping[str, Member], text: str) -> bytes:
    found, encoded = members.get("payload"), members.get("payload_base64")
    if (found is None) == (encoded is None):
        message = "give either payload or payload_base64."
        raise LineError(number, "payload", message)
    if found is not None:
        # Strict decoding loses nothing, so encoding the slice again gives its source bytes.
        return text[found.start : found.end].encode("utf-8")
    try:
        return base64.b64decode(_text(number, members, "payload_base64"), validate=True)
    except (binascii.Error, ValueError):
        message = "this is not base64 (the standard alphabet, padded)."
        raise LineError(number, "payload_base64", message) from None


def _text(number: int, members: Mapping[str, Member], name: str, default: str | None = None) -> str:
    if name not in members:
        if default is None:
            raise LineError(number, name, "this field is missing.")
        return default
    value = members[name].value
    if not isinstance(value, str):
        raise LineError(number, name, "this must be a string.")
    return value


def _key(number: int, members: Mapping[str, Member]) -> str | None:
    found = members.get("idempotency_key")
    if found is None or found.value is None:
        return None
    return _text(number, members, "idempotency_key")


class DuplicateKeyError(Exception):
    """An object names one of its members twice."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def scan_object(text: str) -> dict[str, Member]:
    """Find the members of the one JSON object that ``text`` is, with their places.

    Every key and value is read by ``json`` itself, so this agrees with it on what JSON is;
    only the braces, colons and commas between them are read here.

    Raises:
        json.JSONDecodeError: it is no JSON object, or something follows it.
        DuplicateKeyError: two members have one name.
        RecursionError: a value is nested more deeply than Python's stack allows.
    """
    members: dict[str, Member] = {}
    for key, member in _walk(text):
        if key in members:
            raise DuplicateKeyError(key)
        members[key] = member
    return members


def _walk(text: str) -> Iterator[tuple[str, Member]]:
    at = _expect(text, _skip(text, 0), "{", "Expected an object")
    if text[at : at + 1] == "}":
        at += 1
    else:
        while True:
            if text[at : at + 1] != '"':
                raise json.JSONDecodeError("Expected a name in double quotes", text, at)
            key, at = _DECODER.raw_decode(text, at)
            start = _expect(text, _skip(text, at), ":", "Expected a colon")
            value, end = _value(text, start)
            yield key, Member(value, start, end)
            at = _skip(text, end)
            if text[at : at + 1] == "}":
                at += 1
                break
            at = _expect(text, at, ",", "Expected a comma or the end of the object")
    at = _skip(text, at)
    if at != len(text):
        raise json.JSONDecodeError("Expected the end of the line", text, at)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, mark: str, message: str) -> int:
    """Step over ``mark`` and the white space behind it."""
    if text[at : at + 1] != mark:
        raise json.JSONDecodeError(message, text, at)
    return _skip(text, at + 1)


def _value(text: str, at: int) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except _ConstantError:
        message = "NaN and Infinity are not JSON, in the value"
        raise json.JSONDecodeError(message, text, at) from None


class _ConstantError(Exception):
    """Python's JSON has NaN and Infinity; RFC 8259 has not."""


def _refuse_constant(_name: str) -> NoReturn:
    raise _ConstantError


# A number is never looked at, so it is not made: 5,000 digits cost nothing and overflow nothing.
_DECODER: Final = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_int=lambda _digits: 0,
    parse_float=lambda _digits: 0.0,
)
