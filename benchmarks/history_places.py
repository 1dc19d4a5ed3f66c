"""The subscriptions of a history that is made up, and the workers that served them."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

from copying import NULL, copy, integer, moment, raw, row, text, texts, uuid
from history_plan import Plan
from history_subscriptions import Subscription
from psycopg import Connection

from fencepost.globs import to_like
from fencepost.keyring import Keyring
from fencepost.signing import generate_secret

_COLUMNS = (
    "id name endpoint_sealed endpoint_origin endpoint_masked event_types event_type_patterns"
    " max_attempts state paused_reason paused_at removed_at created_at updated_at"
)


def make_places(conn: Connection[Any], plan: Plan, keyring: Keyring) -> None:
    """Write the subscriptions, each with its secret."""
    rows = [_row(each, keyring) for each in plan.all]
    copy(conn, "webhook_subscriptions", _COLUMNS, rows)
    secrets = [_secret(each, keyring) for each in plan.all]
    copy(conn, "webhook_signing_secrets", "id subscription_id sealed created_at", secrets)
    down = [(each.id, each.down_since) for each in plan.all if each.down_since is not None]
    copy(
        conn,
        "webhook_failing_subscriptions",
        "subscription_id since",
        [row(uuid(id_), moment(since)) for id_, since in down],
    )


def _row(each: Subscription, keyring: Keyring) -> bytes:
    sealed = keyring.seal(each.url.encode(), context=("endpoint", str(UUID(bytes=each.id))))
    is_paused = each.paused_at is not None
    return row(
        uuid(each.id), text(each.name), raw(sealed), text(each.url.partition("/in/")[0]),
        text(each.url), texts(each.types), texts([to_like(glob) for glob in each.types]),
        integer(each.max_attempts), text("paused" if is_paused else "active"),
        text("they are moving house") if is_paused else NULL, moment(each.paused_at),
        moment(each.removed_at), moment(each.created_at), moment(each.created_at),
    )  # fmt: skip


def _secret(each: Subscription, keyring: Keyring) -> bytes:
    of = UUID(bytes=each.id)
    id_ = uuid5(of, "secret")
    context = ("signing-secret", str(of), str(id_))
    sealed = keyring.seal(generate_secret().encode(), context=context)
    return row(uuid(id_.bytes), uuid(each.id), raw(sealed), moment(each.created_at))
