"""Act on an event once, however often its request comes: a record beside the effect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar, Final, LiteralString

from fencepost import connections
from fencepost.receiver.signatures import (
    Headers,
    MalformedHeaderError,
    MissingHeaderError,
    RefusedError,
    header_of,
    message_id_of,
)
from fencepost.store.queries import load

_SQL: Final = load("inbox.sql")
_DELIVERY_ID: Final = re.compile(r"[!-~]{1,255}")
_TOKEN: Final = re.compile(r"[0-9]{1,18}")


class StaleRequestError(RefusedError):
    """A worker sent this that has lost the delivery to another, whose request was here before."""

    status = 409


class Inbox:
    """The receiver's table of the events that it has acted on.

    ``once`` records the event in the caller's transaction, which is the effect's as well. So both
    are there after its commit, and neither is after its rollback: a crash between the effect and
    the commit leaves nothing behind, and the request that comes again finds the event unknown.

    Args:
        connection: a psycopg connection, an SQLAlchemy Session or Connection on psycopg, or a
            Django connection to PostgreSQL. Nothing here commits.
        endpoint: a name of the endpoint, where several with one database have to act on the
            same event.
    """

    ddl: ClassVar[LiteralString] = _SQL.ddl
    """Makes the table ``webhook_inbox``, unless it is there: for a migration of the receiver."""

    def __init__(
        self,
        connection: Any,  # noqa: ANN401  # it may come from a library that is not here
        *,
        endpoint: str = "",
    ) -> None:
        self._connection = connection
        self._endpoint = endpoint

    def once(self, headers: Headers) -> bool:
        """Record a request that was verified, and tell whether it is the first for its event.

        A request for an event that another transaction has recorded waits for the end of that
        transaction: it is the second after a commit, and the first after a rollback.

        Args:
            headers: the request's: ``webhook-id``, and ``Fencepost-Delivery`` and
                ``Fencepost-Token`` where the sender is a Fencepost.

        Returns:
            True: act, and commit. False: the effect is there; commit, and answer 2xx as before.

        Raises:
            StaleRequestError: the same delivery was here before with a higher token.
            MissingHeaderError: there is no ``webhook-id``.
            MalformedHeaderError: one of the three cannot be read.
            NotInTransactionError: there is no transaction to record it in.
            TypeError: the connection is none of these, or is asynchronous.
        """
        parameters = self._read(headers)
        run = connections.join(self._connection)
        return _judge(run(_SQL.record_request, parameters), parameters)

    async def aonce(self, headers: Headers) -> bool:
        """Do what ``once`` does, on an asynchronous connection of psycopg or SQLAlchemy."""
        parameters = self._read(headers)
        run = await connections.join_async(self._connection)
        return _judge(await run(_SQL.record_request, parameters), parameters)

    def purge(self, older_than: timedelta, *, limit: int = 10_000) -> int:
        """Forget events whose last request is older than that, of every endpoint.

        An event that is forgotten is new if it comes again. It can for as long as its delivery is
        kept: an operator may replay what is dead, or was delivered.

        Returns:
            How many were forgotten: at most ``limit``, so that no transaction is long. Call it
            again, after a commit, until it is 0.
        """
        run = connections.join(self._connection)
        ((count,),) = run(_SQL.purge, {"older_than": older_than, "limit": limit})
        return int(count)

    def _read(self, headers: Headers) -> dict[str, object]:
        token = _optional(headers, "Fencepost-Token", _TOKEN)
        return {
            "endpoint": self._endpoint,
            "webhook_id": message_id_of(headers),
            "delivery_id": _optional(headers, "Fencepost-Delivery", _DELIVERY_ID),
            "fencing_token": None if token is None else int(token),
        }


def _optional(headers: Headers, name: str, form: re.Pattern[str]) -> str | None:
    try:
        value = header_of(headers, name)
    except MissingHeaderError:
        return None
    if not form.fullmatch(value):
        raise MalformedHeaderError(f"the header {name} cannot be read")
    return value


def _judge(rows: Sequence[Sequence[Any]], parameters: dict[str, object]) -> bool:
    ((is_first, is_stale),) = rows
    if is_stale:
        raise StaleRequestError(
            f"delivery {parameters['delivery_id']} was here with a higher token than"
            f" {parameters['fencing_token']}"
        )
    return bool(is_first)
