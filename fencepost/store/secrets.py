"""Signing secrets that change while receivers still hold the old ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, cast
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import dict_row, scalar_row

from fencepost import signing
from fencepost.errors import InvalidInputError
from fencepost.keyring import Keyring
from fencepost.model import Subscription
from fencepost.store import sealed_columns as sealed
from fencepost.store.actions import log_action
from fencepost.store.queries import load
from fencepost.store.subscriptions import lock_subscription

_SQL = load("subscriptions.sql")

OVERLAP: Final = timedelta(hours=24)
_LONGEST_OVERLAP: Final = timedelta(days=30)


def rotate_secret(
    conn: Connection[Any],
    endpoint_keyring: Keyring,
    subscription_id: UUID,
    *,
    overlap: timedelta = OVERLAP,
    actor: str,
) -> tuple[Subscription, str]:
    """Make a new signing secret; the old one signs beside it for the overlap.

    Args:
        conn: inside a transaction; the caller commits.
        endpoint_keyring: seals the secret.
        subscription_id: of the subscription.
        overlap: 0 to 30 days; at most three secrets are valid at once, older ones end now.
        actor: who rotates it.

    Returns:
        The subscription, and the new secret, which is shown this once.

    Raises:
        NotFoundError: there is no such subscription, or it was removed.
        InvalidInputError: ``overlap_seconds``.
    """
    if not timedelta(0) <= overlap <= _LONGEST_OVERLAP:
        raise InvalidInputError(
            "overlap_seconds",
            f"overlap_seconds must be from 0 to {_LONGEST_OVERLAP.total_seconds():.0f}",
        )
    found = lock_subscription(conn, subscription_id)
    with conn.cursor(row_factory=dict_row) as cur:
        secret_id = (cur.execute(_SQL.make_ids).fetchone() or {})["secret_id"]
    secret = signing.generate_secret()
    params = {
        "id": subscription_id,
        "secret_id": secret_id,
        "secret_sealed": sealed.secret(endpoint_keyring, subscription_id, secret_id, secret),
        "overlap": overlap,
    }
    conn.execute(sql.SQL(_SQL.rotate_secret).format(columns=sql.SQL("id")), params)
    _log(conn, found, actor, "rotate_secret", {"overlap_seconds": overlap.total_seconds()})
    return found, secret


def revoke_secret(conn: Connection[Any], subscription_id: UUID, *, actor: str) -> int:
    """End every secret but the current one at once; give how many were ended.

    Raises:
        NotFoundError: there is no such subscription, or it was removed.
    """
    found = lock_subscription(conn, subscription_id)
    with conn.cursor(row_factory=scalar_row) as cur:
        ended = cast("int", cur.execute(_SQL.revoke_secrets, {"id": found.id}).fetchone())
    _log(conn, found, actor, "revoke_secret", {"ended": ended})
    return ended


def _log(
    conn: Connection[Any], found: Subscription, actor: str, what: str, params: dict[str, object]
) -> None:
    action = f"subscription.{what}"
    log_action(conn, actor=actor, action=action, target=str(found.id), params=params, affected=1)
