"""The server reads binary arrays as what they were made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from fencepost.model import ErrorClass
from fencepost.store.arrays import bigints, bools, byteas, floats, jsonbs, texts, uuids


@pytest.fixture
def db(superuser: Connection[Any]) -> Iterator[Connection[Any]]:
    with superuser.transaction(force_rollback=True):
        yield superuser


@pytest.mark.parametrize(
    ("make", "kind", "values"),
    [
        (uuids, "uuid", [UUID(int=0), UUID(int=2**128 - 1)]),
        (bigints, "bigint", [1, None, -(2**63), 2**63 - 1]),
        (bigints, "bigint", [None, None]),
        (floats, "double precision", [0.5, None, 1e300]),
        (bools, "boolean", [True, False]),
        (texts, "text", ["", None, "NULL", '{"a,b"}', "é 🐘\n", ErrorClass.TIMEOUT]),
        (texts, "text", []),
        (byteas, "bytea", [b"", None, bytes(range(256))]),
        (jsonbs, "jsonb", [{}, {"class": ErrorClass.DNS, "ms": 1.5, "no": None, "é": [1]}]),
    ],
)
def test_an_array_arrives_as_it_was_made(
    db: Connection[Any], make: Callable[[list[Any]], bytes], kind: str, values: list[Any]
) -> None:
    row = db.execute("SELECT %(a)s, pg_typeof(%(a)s)::text", {"a": make(values)}).fetchone()
    assert row == (values, f"{kind}[]")


@pytest.mark.parametrize(("make", "value"), [(texts, "a\0b"), (jsonbs, {"a": "\0"})])
def test_text_that_no_column_takes_is_an_error_of_the_data(
    db: Connection[Any], make: Callable[[list[Any]], bytes], value: object
) -> None:
    with pytest.raises(psycopg.DataError), db.transaction():
        db.execute("SELECT %s", (make([value]),))


def test_one_statement_is_prepared_once_whatever_is_missing(db: Connection[Any]) -> None:
    none: list[int | None] = []
    for values in ([1], [None], [2**40], none):
        db.execute("SELECT %s AS told", (bigints(values),), prepare=True)
    row = db.execute(
        "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%AS told'"
    ).fetchone()
    assert row == (1,)
