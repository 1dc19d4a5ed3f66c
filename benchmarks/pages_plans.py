"""What the database was asked for a page, and how it went about the most expensive of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import psycopg
from flask import Flask
from psycopg import Connection, sql
from psycopg.abc import Params
from sqlalchemy import event

from dashboard.models import db


@dataclass(frozen=True, slots=True)
class Asked:
    """One statement, with its parameters and how long it took."""

    query: Any
    params: Params | None
    ms: float


class _Listening(psycopg.Cursor[Any]):
    """A cursor that writes down what it is asked."""

    heard: ClassVar[list[Asked]] = []

    def execute(self, query: Any, params: Params | None = None, **how: Any) -> _Listening:  # noqa: ANN401
        began = time.perf_counter()
        try:
            return super().execute(query, params, **how)
        finally:
            self.heard.append(Asked(query, params, (time.perf_counter() - began) * 1000))


@contextmanager
def listening(app: Flask) -> Iterator[list[Asked]]:
    """Give the statements that this application asks from now on, in the order of time."""
    with app.app_context():
        engine = db.engine

    def listen(found: Any, _record: object) -> None:  # noqa: ANN401
        found.cursor_factory = _Listening

    event.listen(engine, "connect", listen)
    _Listening.heard.clear()
    try:
        yield _Listening.heard
    finally:
        event.remove(engine, "connect", listen)
        engine.dispose()


def plan_of(conn: Connection[Any], asked: Asked) -> str:
    """Run a statement again, and give the plan with what each step took and read.

    Args:
        conn: of the dashboard's role, without a limit on how long a statement takes.
        asked: a reading statement.
    """
    text = asked.query
    if isinstance(text, sql.Composable):
        text = text.as_string(conn)
    explained = f"EXPLAIN (ANALYZE, BUFFERS) {text}"
    with conn.transaction(force_rollback=True):
        rows = conn.execute(explained.encode(), asked.params).fetchall()
    return "\n".join(str(row[0]) for row in rows)
