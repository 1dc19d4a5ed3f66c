"""The producer's door: an event exists exactly when the caller's transaction commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final
from uuid import UUID

from fencepost import connections, payloads
from fencepost.errors import IdempotencyConflictError, InvalidInputError
from fencepost.producer import NewEvent, Producer, Published, Sealed
from fencepost.settings import Settings
from fencepost.store.queries import load

TEST_EVENT_TYPE: Final = "fencepost.test"

_SQL: Final = load("publish.sql")
_LARGEST_BATCH: Final = 1000


def publish(
    connection: Any,  # noqa: ANN401  # it may come from a library that is not here
    event_type: str,
    payload: object,
    *,
    content_type: str = payloads.JSON,
    idempotency_key: str | None = None,
    producer: Producer | None = None,
) -> UUID:
    """Publish an event: commit, and it exists; roll back, and it never did.

    It belongs to the caller's transaction; nothing is committed here. The payload is sealed
    before it leaves this process.

    Args:
        connection: a psycopg connection, an SQLAlchemy Session or Connection on psycopg, or a
            Django connection to PostgreSQL, with a transaction to belong to.
        event_type: words of letters, digits and ``_`` with dots between.
        payload: bytes, which arrive exactly as they are; anything else becomes compact JSON.
        content_type: ``application/json`` is checked; all others are opaque and need bytes.
        idempotency_key: publishing the same again under it gives the first event's id.
        producer: None: what this process's settings say, read once.

    Returns:
        The event's id, which receivers see as ``webhook-id``.

    Raises:
        NotInTransactionError: autocommit, or Django outside ``atomic``.
        IdempotencyConflictError: the key was used for another event; nothing was published, and
            the transaction can go on.
        InvalidInputError: type, content type, key or payload cannot be accepted.
        SettingsError: the settings have faults, or no keys.
        TypeError: ``connection`` is none of these.
    """
    producer = producer or _producer_of_this_process()
    run = connections.join(connection)
    event = _new_event(producer, event_type, payload, content_type, idempotency_key)
    statement = _in_schema(_SQL.publish_sealed, producer.schema)
    (answer,) = run(statement, _parameters(producer.seal(event), producer))
    return producer.judge(event, answer).id


async def apublish(
    connection: Any,  # noqa: ANN401  # it may come from a library that is not here
    event_type: str,
    payload: object,
    *,
    content_type: str = payloads.JSON,
    idempotency_key: str | None = None,
    producer: Producer | None = None,
) -> UUID:
    """Do what ``publish`` does, on an asynchronous connection.

    Args:
        connection: an asynchronous psycopg connection, or an SQLAlchemy AsyncSession or
            AsyncConnection on psycopg.
        event_type: as for ``publish``.
        payload: as for ``publish``.
        content_type: as for ``publish``.
        idempotency_key: as for ``publish``.
        producer: as for ``publish``.

    Returns:
        The event's id.
    """
    producer = producer or _producer_of_this_process()
    run = await connections.join_async(connection)
    event = _new_event(producer, event_type, payload, content_type, idempotency_key)
    statement = _in_schema(_SQL.publish_sealed, producer.schema)
    (answer,) = await run(statement, _parameters(producer.seal(event), producer))
    return producer.judge(event, answer).id


def publish_sealed_many(
    connection: Any,  # noqa: ANN401  # as for publish
    events: Sequence[NewEvent],
    *,
    producer: Producer | None = None,
) -> list[Published]:
    """Publish a batch in the caller's transaction, in few round trips.

    Raises:
        IdempotencyConflictError: one key was used for another event. Earlier events of the batch
            may be in the transaction already: roll it back.
        InvalidInputError: one event cannot be accepted; nothing was published. Both say which,
            counting from 1, when there are several.

    Returns:
        What became of each, in their order. Two with one key in a batch are one event.
    """
    producer = producer or _producer_of_this_process()
    run = connections.join(connection)
    for place, event in enumerate(events, start=1):
        try:
            producer.check(event)
        except InvalidInputError as error:
            raise type(error)(error.field, _placed(error, place, len(events))) from None
    statement = _in_schema(_SQL.publish_sealed_many, producer.schema)
    published: list[Published] = []
    for start in range(0, len(events), _LARGEST_BATCH):
        batch = [producer.seal(event) for event in events[start : start + _LARGEST_BATCH]]
        answers = run(statement, _parameters_of_many(batch, producer))
        for sealed, answer in zip(batch, answers, strict=True):
            try:
                published.append(producer.judge(sealed.event, answer))
            except IdempotencyConflictError as error:
                place = len(published) + 1
                raise IdempotencyConflictError(_placed(error, place, len(events))) from None
    return published


def publish_test(
    connection: Any,  # noqa: ANN401  # as for publish
    subscription_id: UUID,
    payload: object,
    *,
    producer: Producer,
) -> UUID:
    """Publish a ``fencepost.test`` that one subscription alone receives, whatever it listens to.

    Its login needs the rights of the dashboard; producers have no such door.
    """
    run = connections.join(connection)
    event = NewEvent(TEST_EVENT_TYPE, payloads.encode(payload, payloads.JSON))
    payloads.check_payload(event.payload, payloads.JSON, max_bytes=producer.max_payload_bytes)
    parameters = {
        **_parameters(producer.seal(event), producer),
        "subscription_id": subscription_id,
    }
    ((event_id,),) = run(_in_schema(_SQL.publish_test, producer.schema), parameters)
    return UUID(str(event_id))


@cache
def _producer_of_this_process() -> Producer:
    return Producer.of(Settings.load())


@cache
def _in_schema(statement: str, schema: str) -> str:
    quoted = '"' + schema.replace('"', '""').replace("%", "%%") + '"'
    return statement.replace("{schema}", quoted)


def _new_event(
    producer: Producer,
    event_type: str,
    payload: object,
    content_type: str,
    idempotency_key: str | None,
) -> NewEvent:
    encoded = payloads.encode(payload, content_type)
    event = NewEvent(event_type, encoded, content_type, idempotency_key)
    producer.check(event)
    return event


def _parameters(sealed: Sealed, producer: Producer) -> Mapping[str, object]:
    return {
        "event_id": sealed.id,
        "event_type": sealed.event.event_type,
        "content_type": sealed.event.content_type,
        "idempotency_key": sealed.event.idempotency_key,
        "payload_bytes": len(sealed.event.payload),
        "key_id": sealed.key_id,
        "sealed": sealed.sealed,
        "mac": sealed.mac,
        "node": producer.node,
    }


def _parameters_of_many(batch: Sequence[Sealed], producer: Producer) -> Mapping[str, object]:
    return {
        "event_ids": [sealed.id for sealed in batch],
        "event_types": [sealed.event.event_type for sealed in batch],
        "content_types": [sealed.event.content_type for sealed in batch],
        "idempotency_keys": [sealed.event.idempotency_key for sealed in batch],
        "payload_bytes": [len(sealed.event.payload) for sealed in batch],
        "key_ids": [sealed.key_id for sealed in batch],
        "sealed": [sealed.sealed for sealed in batch],
        "macs": [sealed.mac for sealed in batch],
        "node": producer.node,
    }


def _placed(error: Exception, place: int, total: int) -> str:
    return str(error) if total == 1 else f"event {place}: {error}"
