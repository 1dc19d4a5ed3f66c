"""Every way to publish, or to record in an inbox, with the real library behind each.

Run as a program, ``doors.py NAME``, it publishes one event to ``DATABASE_URL`` in an open
transaction, says so, and waits to be killed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import django  # type: ignore[import-untyped]
import psycopg
import sqlalchemy
from django.conf import settings as django_settings  # type: ignore[import-untyped]
from django.db import connection as django_connection  # type: ignore[import-untyped]
from django.db import connections as django_connections
from django.db import transaction as django_transaction
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from fencepost import apublish, publish
from fencepost.receiver import Inbox
from fencepost.receiver.signatures import Headers


@dataclass(frozen=True, slots=True)
class Transaction:
    """An open transaction of some library; leaving its door commits, an error rolls back."""

    publish: Callable[..., UUID]
    """``publish`` without its first argument, and with nothing to await."""
    execute: Callable[[str], object]
    """Does something else in the same transaction."""
    once: Callable[..., bool]
    """``Inbox(connection).once``, with nothing to await; ``endpoint`` is the inbox's."""


Door = Callable[[str], AbstractContextManager[Transaction]]


@contextmanager
def through_sql(url: str) -> Iterator[Transaction]:
    """As in any other language; the payload goes in clear."""

    def call(
        event_type: str,
        payload: bytes,
        *,
        content_type: str = "application/json",
        idempotency_key: str | None = None,
        **_: object,
    ) -> UUID:
        row = conn.execute(
            "SELECT webhook_publish(%s, %s, %s, %s)",
            (event_type, payload, content_type, idempotency_key),
        ).fetchone()
        assert row is not None
        return UUID(str(row[0]))

    with psycopg.connect(url) as conn:
        yield Transaction(call, lambda text: conn.execute(text.encode()), partial(_once, conn))


@contextmanager
def through_psycopg(url: str) -> Iterator[Transaction]:
    with psycopg.connect(url) as conn:
        yield Transaction(
            partial(publish, conn), lambda text: conn.execute(text.encode()), partial(_once, conn)
        )


@contextmanager
def through_psycopg_in_autocommit(url: str) -> Iterator[Transaction]:
    with psycopg.connect(url, autocommit=True) as conn, conn.transaction():
        yield Transaction(
            partial(publish, conn), lambda text: conn.execute(text.encode()), partial(_once, conn)
        )


@contextmanager
def through_async_psycopg(url: str) -> Iterator[Transaction]:
    with asyncio.Runner() as runner:
        conn = runner.run(psycopg.AsyncConnection.connect(url))
        try:
            yield _awaited(runner, conn, lambda text: conn.execute(text.encode()))
            runner.run(conn.commit())
        finally:
            runner.run(conn.close())


@contextmanager
def through_session(url: str) -> Iterator[Transaction]:
    with _engine(url) as engine, Session(engine) as session, session.begin():
        yield _of_session(session)


@contextmanager
def through_scoped_session(url: str) -> Iterator[Transaction]:
    """What Flask-SQLAlchemy's ``db.session`` is."""
    with _engine(url) as engine:
        session = scoped_session(sessionmaker(engine))
        try:
            yield _of_session(session)
            session.commit()
        finally:
            session.remove()


@contextmanager
def through_sqlalchemy_connection(url: str) -> Iterator[Transaction]:
    with _engine(url) as engine, engine.begin() as conn:
        yield _of_session(conn)


@contextmanager
def through_async_session(url: str) -> Iterator[Transaction]:
    with asyncio.Runner() as runner:
        engine = create_async_engine(engine_url(url))
        session = AsyncSession(engine)
        try:
            yield _awaited(runner, session, lambda text: session.execute(sqlalchemy.text(text)))
            runner.run(session.commit())
        finally:
            runner.run(session.close())
            runner.run(engine.dispose())


@contextmanager
def through_async_connection(url: str) -> Iterator[Transaction]:
    with asyncio.Runner() as runner:
        engine = create_async_engine(engine_url(url))
        conn = runner.run(_started(engine.connect()))
        try:
            yield _awaited(runner, conn, lambda text: conn.execute(sqlalchemy.text(text)))
            runner.run(conn.commit())
        finally:
            runner.run(conn.close())
            runner.run(engine.dispose())


@contextmanager
def through_django(url: str) -> Iterator[Transaction]:
    with django_at(url), django_transaction.atomic():
        yield Transaction(
            partial(publish, django_connection),
            _execute_in_django,
            partial(_once, django_connection),
        )


DOORS: Mapping[str, Door] = {
    "sql": through_sql,
    "psycopg": through_psycopg,
    "psycopg in autocommit": through_psycopg_in_autocommit,
    "async psycopg": through_async_psycopg,
    "session": through_session,
    "scoped session": through_scoped_session,
    "sqlalchemy connection": through_sqlalchemy_connection,
    "async session": through_async_session,
    "async sqlalchemy connection": through_async_connection,
    "django": through_django,
}


def engine_url(url: str) -> sqlalchemy.URL:
    """Give a libpq URL to SQLAlchemy, on psycopg."""
    return sqlalchemy.make_url(url).set(drivername="postgresql+psycopg")


@contextmanager
def _engine(url: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(engine_url(url))
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def django_at(url: str) -> Iterator[None]:
    """Point Django's default connection at a database, and close it afterwards."""
    if not django_settings.configured:
        django_settings.configure(
            USE_TZ=True, DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}}
        )
        django.setup()
    parts = psycopg.conninfo.conninfo_to_dict(url)
    django_connections.settings["default"].update(
        NAME=parts["dbname"], USER=parts["user"], HOST=parts["host"], PORT=parts.get("port", "")
    )
    try:
        yield
    finally:
        django_connections["default"].close()
        del django_connections["default"]


def _of_session(session: Any) -> Transaction:
    """Of a Session, a scoped_session or a Connection."""
    return Transaction(
        partial(publish, session),
        lambda text: session.execute(sqlalchemy.text(text)),
        partial(_once, session),
    )


def _once(connection: Any, headers: Headers, **options: Any) -> bool:
    return Inbox(connection, **options).once(headers)


def _execute_in_django(text: str) -> None:
    with django_connection.cursor() as cursor:
        cursor.execute(text)


def _awaited(runner: asyncio.Runner, connection: Any, execute: Callable[[str], Any]) -> Transaction:
    def call(*args: Any, **options: Any) -> UUID:
        return runner.run(apublish(connection, *args, **options))

    def once(headers: Headers, **options: Any) -> bool:
        return runner.run(Inbox(connection, **options).aonce(headers))

    return Transaction(call, lambda text: runner.run(execute(text)), once)


async def _started(waiting: Any) -> Any:
    """An awaitable that is no coroutine, as one."""
    return await waiting


def _main(name: str) -> None:
    with DOORS[name](os.environ["DATABASE_URL"]) as transaction:
        transaction.execute("INSERT INTO orders VALUES ('order-1')")
        transaction.publish("order.paid", b'{"order":1}')
        print("published", flush=True)  # what the test waits for
        sys.stdin.read()


if __name__ == "__main__":
    _main(sys.argv[1])
