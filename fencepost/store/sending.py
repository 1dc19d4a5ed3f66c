"""What the requests of a batch are built from, still sealed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from fencepost.store.queries import load

_SQL = load("sending.sql")


@dataclass(frozen=True, slots=True)
class SealedPayload:
    """An event's payload as it is stored; ``sealed`` is None when it was erased."""

    event_id: UUID
    content_type: str
    is_erased: bool
    sealed: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class SealedEndpoint:
    """A subscription as the sender needs it, its secrets newest first."""

    id: UUID
    endpoint_sealed: bytes = field(repr=False)
    endpoint_masked: str
    signature_scheme: str
    signature_header: str | None
    headers_sealed: bytes | None = field(repr=False)
    max_attempts: int
    backoff_base_seconds: float
    backoff_cap_seconds: float
    retry_preset: str | None
    retry_statuses: list[int]
    no_retry_statuses: list[int]
    is_paused: bool
    is_removed: bool
    config_version: int
    secret_ids: list[UUID]
    secrets_sealed: list[bytes] = field(repr=False)


def read_payloads(conn: Connection[Any], event_ids: Collection[UUID]) -> dict[UUID, SealedPayload]:
    """Read the payloads of these events, by event id."""
    with conn.cursor(row_factory=class_row(SealedPayload), binary=True) as cur:
        rows = cur.execute(_SQL.read_payloads, {"event_ids": list(event_ids)}).fetchall()
    return {row.event_id: row for row in rows}


def read_endpoints(
    conn: Connection[Any], subscription_ids: Collection[UUID]
) -> dict[UUID, SealedEndpoint]:
    """Read where and how these subscriptions want to be called, by subscription id."""
    with conn.cursor(row_factory=class_row(SealedEndpoint), binary=True) as cur:
        rows = cur.execute(
            _SQL.read_endpoints, {"subscription_ids": list(subscription_ids)}
        ).fetchall()
    return {row.id: row for row in rows}
