"""The tables as the dashboard reads them; what changes them is named SQL in ``fencepost.store``."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import BindParameter, ColumnElement, DateTime, LargeBinary, Text, bindparam
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, registry

from fencepost.states import HELD, WAITING, State


class Base(DeclarativeBase):
    """Times are aware; text arrays and JSON are PostgreSQL's."""

    # Not as type_annotation_map of the class: Flask-SQLAlchemy makes a base out of this base.
    registry = registry(
        type_annotation_map={
            datetime: DateTime(timezone=True),
            list[str]: ARRAY(Text),
            dict[str, Any]: JSONB,
            bytes: LargeBinary,
        }
    )


db = SQLAlchemy(model_class=Base)


class Subscription(Base):
    """An endpoint and what it wants to receive; nothing secret is mapped."""

    __tablename__ = "webhook_subscriptions"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    endpoint_origin: Mapped[str]
    endpoint_masked: Mapped[str]
    event_types: Mapped[list[str]]
    state: Mapped[str]
    paused_reason: Mapped[str | None]
    paused_at: Mapped[datetime | None]
    removed_at: Mapped[datetime | None]
    created_at: Mapped[datetime]


class Event(Base):
    """What a producer published, without its payload."""

    __tablename__ = "webhook_events"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    event_type: Mapped[str]
    content_type: Mapped[str]
    payload_bytes: Mapped[int]
    idempotency_key: Mapped[str | None]
    node: Mapped[str]
    sealed_by: Mapped[str | None]
    erased_at: Mapped[datetime | None]
    created_at: Mapped[datetime]


class Delivery(Base):
    """One event on its way to one subscription."""

    __tablename__ = "webhook_deliveries"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    event_id: Mapped[UUID]
    subscription_id: Mapped[UUID]
    event_type: Mapped[str]
    current_state: Mapped[str]
    seq: Mapped[int]
    attempt_count: Mapped[int]
    max_attempts: Mapped[int]
    budget_start: Mapped[int]
    next_attempt_at: Mapped[datetime | None]
    worker_id: Mapped[str | None]
    fencing_token: Mapped[int]
    lease_expires_at: Mapped[datetime | None]
    last_status: Mapped[int | None]
    last_error: Mapped[str | None]
    dead_reason: Mapped[str | None]
    dead_at: Mapped[datetime | None]
    discarded_at: Mapped[datetime | None]
    replay_id: Mapped[UUID | None]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class TrailRow(Base):
    """One row of the trail."""

    __tablename__ = "webhook_delivery_attempts"

    delivery_id: Mapped[UUID] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str]
    worker_id: Mapped[str | None]
    fencing_token: Mapped[int | None]
    http_status_code: Mapped[int | None]
    latency_ms: Mapped[int | None]
    error_message: Mapped[str | None]
    detail: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime]


def is_in(*states: State) -> ColumnElement[bool]:
    """Compare a delivery's state with constants of the statement.

    No index mentions the state: what it implies of other columns, the indexes do. As
    parameters, constants would hide from the planner how many rows there are.
    """
    constants: BindParameter[str] = bindparam(
        None, [str(each) for each in states], expanding=True, literal_execute=True
    )
    found: ColumnElement[bool] = Delivery.current_state.in_(constants)
    if WAITING.issuperset(states):
        found &= Delivery.worker_id.is_(None) & Delivery.next_attempt_at.is_not(None)
    elif HELD.issuperset(states):
        found &= Delivery.worker_id.is_not(None)
    elif states == (State.DLQ,):
        found &= Delivery.dead_at.is_not(None)
    return found


class FencedWrite(Base):
    """A late write that fencing refused."""

    __tablename__ = "webhook_fenced_writes"

    id: Mapped[int] = mapped_column(primary_key=True)
    delivery_id: Mapped[UUID]
    worker_id: Mapped[str]
    fencing_token: Mapped[int]
    would_write: Mapped[str]
    noted_at: Mapped[datetime]


class Replay(Base):
    """A bulk replay, from its draft on."""

    __tablename__ = "webhook_replays"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    state: Mapped[str]
    filter: Mapped[dict[str, Any]]
    reason: Mapped[str | None]
    rate_per_second: Mapped[float | None]
    matched: Mapped[int]
    eligible: Mapped[int]
    requeued: Mapped[int]
    skipped: Mapped[int]
    delivered: Mapped[int]
    failed: Mapped[int]
    passed_on: Mapped[int]
    paused_reason: Mapped[str | None]
    failure: Mapped[str | None]
    created_by: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class User(Base):
    """A person who may log in."""

    __tablename__ = "webhook_users"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    role: Mapped[str]
    disabled_at: Mapped[datetime | None]
    created_at: Mapped[datetime]


class Session(Base):
    """A login, known by the hash of its cookie."""

    __tablename__ = "webhook_sessions"

    token_hash: Mapped[bytes] = mapped_column(primary_key=True)
    user_id: Mapped[UUID]
    created_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]


class Worker(Base):
    """A worker process as it reported itself last."""

    __tablename__ = "webhook_workers"

    worker_id: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[str]
    in_flight: Mapped[int]
    beat_at: Mapped[datetime]


class Failing(Base):
    """A subscription from its first failure until its next success."""

    __tablename__ = "webhook_failing_subscriptions"

    subscription_id: Mapped[UUID] = mapped_column(primary_key=True)
    since: Mapped[datetime]
