"""Rows in the binary format of COPY: what the server reads fastest, and Python writes fastest.

Each function gives one field, length and all; what repeats is made once and joined again and again.
Source: https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format".
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

from psycopg import Connection, sql

NULL: Final = b"\xff\xff\xff\xff"
TRUE: Final = b"\x00\x00\x00\x01\x01"
FALSE: Final = b"\x00\x00\x00\x01\x00"

_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TAIL: Final = b"\xff\xff"
_2000: Final = 946_684_800_000_000
"""Where PostgreSQL's microseconds begin."""
_INT4: Final = 23
_TEXT: Final = 25
_PIECE: Final = 1 << 20

_int2 = struct.Struct(">ih").pack
_int4 = struct.Struct(">ii").pack
_int8 = struct.Struct(">iq").pack
_length = struct.Struct(">i").pack
_count = struct.Struct(">h").pack
_array = struct.Struct(">5i").pack


def raw(value: bytes | None) -> bytes:
    """Write bytes."""
    return NULL if value is None else _length(len(value)) + value


def text(value: str | None) -> bytes:
    """Write text."""
    return NULL if value is None else raw(value.encode())


def uuid(value: bytes | None) -> bytes:
    """Write the sixteen bytes of an id."""
    return NULL if value is None else b"\x00\x00\x00\x10" + value


def smallint(value: int) -> bytes:
    """Write two bytes."""
    return _int2(2, value)


def integer(value: int | None) -> bytes:
    """Write four bytes."""
    return NULL if value is None else _int4(4, value)


def bigint(value: int | None) -> bytes:
    """Write eight bytes."""
    return NULL if value is None else _int8(8, value)


def moment(microseconds: int | None) -> bytes:
    """Write a ``timestamptz``, given in microseconds since 1970."""
    return NULL if microseconds is None else _int8(8, microseconds - _2000)


def jsonb(value: object) -> bytes:
    """Write a JSON document; nothing for nothing."""
    return raw(b"\x01" + json.dumps(value).encode()) if value else NULL


def texts(values: Sequence[str]) -> bytes:
    """Write a ``text[]``."""
    return _as_array(_TEXT, len(values), b"".join(map(text, values)))


def integers(values: Sequence[int]) -> bytes:
    """Write an ``integer[]``."""
    return _as_array(_INT4, len(values), b"".join([_int4(4, value) for value in values]))


def _as_array(element: int, count: int, fields: bytes) -> bytes:
    if not count:
        return raw(struct.pack(">3i", 0, 0, element))
    return raw(_array(1, 0, element, count, 1) + fields)


def begin(fields: int) -> bytes:
    """Write what a row of so many fields begins with."""
    return _count(fields)


def row(*fields: bytes) -> bytes:
    """Write a row."""
    return _count(len(fields)) + b"".join(fields)


def copy(conn: Connection[Any], table: str, columns: str, rows: Iterable[bytes]) -> None:
    """Write rows into a table.

    Args:
        conn: the caller commits.
        table: its name.
        columns: those that the rows have, with spaces between.
        rows: from ``row``, or from ``begin`` and fields.
    """
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns.split()))
    )
    with conn.cursor() as cur, cur.copy(statement) as to:
        held, size = [_HEAD], 0
        for each in rows:
            held.append(each)
            size += len(each)
            if size > _PIECE:
                to.write(b"".join(held))
                held, size = [], 0
        to.write(b"".join([*held, _TAIL]))
