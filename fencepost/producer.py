"""What a producer's process knows, and how its events are made ready for the database."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self
from uuid import UUID

from fencepost import payloads
from fencepost.errors import (
    IdempotencyConflictError,
    KeyUnavailableError,
)
from fencepost.ids import RANDOM_BYTES, uuid7
from fencepost.keyring import Keyring
from fencepost.settings import Settings


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event that is about to be published."""

    event_type: str
    payload: bytes = field(repr=False)
    content_type: str = payloads.JSON
    idempotency_key: str | None = None


class Published(NamedTuple):
    """What became of it: its id, or that of the first event under its idempotency key."""

    id: UUID
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Sealed:
    """An event as the database takes it in."""

    event: NewEvent
    id: UUID
    key_id: str
    sealed: bytes = field(repr=False)
    mac: bytes | None = field(repr=False)
    """Only with an idempotency key: what later tells this event from another."""


@dataclass(frozen=True, slots=True)
class Producer:
    """Keys, place and limits of everything that this process publishes."""

    keyring: Keyring
    schema: str = "public"
    node: str = "producer"
    """Where events are taken in, for their trail: 1 to 128 printable ASCII characters."""
    max_payload_bytes: int = 262_144
    clock: Callable[[], int] = time.time_ns
    """For the time in an event's id, which nothing but its place in an index depends on."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Take what settings say.

        Raises:
            SettingsError: they have no keys.
        """
        return cls(
            keyring=settings.keyring(),
            schema=settings.schema,
            node=settings.node_name,
            max_payload_bytes=settings.max_payload_bytes,
        )

    def check(self, event: NewEvent) -> None:
        """Judge an event by the rules of ``fencepost.payloads``.

        Raises:
            InvalidInputError: names the field.
        """
        payloads.check_event_type(event.event_type)
        payloads.check_content_type(event.content_type)
        if event.idempotency_key is not None:
            payloads.check_idempotency_key(event.idempotency_key)
        payloads.check_payload(event.payload, event.content_type, max_bytes=self.max_payload_bytes)

    def seal(self, event: NewEvent) -> Sealed:
        """Give an event its id and seal its payload."""
        event_id = uuid7(self.clock() // 1_000_000, os.urandom(RANDOM_BYTES))
        key_id, sealed = self.keyring.seal_payload(
            event.payload,
            event_id=event_id,
            content_type=event.content_type,
            event_type=event.event_type,
        )
        mac = (
            None
            if event.idempotency_key is None
            else payloads.fingerprint(
                self.keyring,
                event_type=event.event_type,
                content_type=event.content_type,
                payload=event.payload,
            )
        )
        return Sealed(event, event_id, key_id, sealed, mac)

    def judge(self, event: NewEvent, answer: Sequence[Any]) -> Published:
        """Read the database's answer: the event is new, or the same as the first one.

        Where the first event has no fingerprint (it came through the SQL function and is not
        fanned out yet), or its key is gone, type, content type and length decide.

        Args:
            event: the one that was sent.
            answer: id, whether another event has the key, whether the two look alike, and the
                other's fingerprint.

        Raises:
            IdempotencyConflictError: its key belongs to another event.
        """
        event_id, is_duplicate, is_alike, mac = answer
        if is_duplicate and not (is_alike and self._is_same(event, mac)):
            raise IdempotencyConflictError(
                "this idempotency key was used before, with another event type, content type or"
                " payload"
            )
        return Published(UUID(str(event_id)), bool(is_duplicate))

    def _is_same(self, event: NewEvent, mac: bytes | memoryview | None) -> bool:
        if mac is None:
            return True
        try:
            return payloads.matches_fingerprint(
                self.keyring,
                bytes(mac),
                event_type=event.event_type,
                content_type=event.content_type,
                payload=event.payload,
            )
        except KeyUnavailableError:
            return True
