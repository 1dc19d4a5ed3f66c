"""Subscriptions, as people configure them.

What changes one needs a transaction of its caller, and writes itself to the log of actions
in it. URLs, header values and signing secrets are sealed before they reach the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import dict_row, kwargs_row

from fencepost import signing
from fencepost.cursors import Page, Position
from fencepost.errors import ConflictError, InvalidInputError, NotFoundError
from fencepost.filter_values import parse_id
from fencepost.globs import to_like
from fencepost.keyring import Keyring
from fencepost.lines import check_line
from fencepost.model import Subscription
from fencepost.producer import Producer
from fencepost.publish import TEST_EVENT_TYPE
from fencepost.publish import publish_test as publish_to_one
from fencepost.store import sealed_columns as sealed
from fencepost.store.actions import LONGEST_REASON, log_action, need_transaction
from fencepost.store.paging import fetch_page
from fencepost.store.queries import load
from fencepost.subscription_spec import LONGEST_NAME, SubscriptionChange, SubscriptionSpec, Terms

_SQL = load("subscriptions.sql")
_COLUMNS = sql.SQL(_SQL.columns)


def add_subscription(
    conn: Connection[Any], endpoint_keyring: Keyring, spec: SubscriptionSpec, *, actor: str
) -> tuple[Subscription, str]:
    """Add a subscription; it meets the events that are published from now on.

    Args:
        conn: inside a transaction; the caller commits.
        endpoint_keyring: seals its URL, header values and secret.
        spec: from ``read_spec``.
        actor: who adds it.

    Returns:
        The subscription, and its signing secret, which is shown this once.
    """
    need_transaction(conn)
    with conn.cursor(row_factory=dict_row) as cur:
        ids = cur.execute(_SQL.make_ids).fetchone() or {}
    secret = spec.secret or signing.generate_secret()
    params = {
        **ids,
        **_plain(spec.terms),
        **sealed.endpoint(endpoint_keyring, ids["id"], spec.endpoint),
        **sealed.headers(endpoint_keyring, ids["id"], spec.headers),
        "secret_sealed": sealed.secret(endpoint_keyring, ids["id"], ids["secret_id"], secret),
    }
    added = _require(_run(conn, _SQL.add_subscription, params), ids["id"])
    asked = {"name": added.name, "url": added.endpoint_masked}
    _log(conn, added, actor=actor, action="subscription.add", params=asked)
    return added, secret


def get_subscription(
    conn: Connection[Any], subscription_id: UUID, *, with_removed: bool = False
) -> Subscription:
    """Give one subscription, also a removed one where ``with_removed`` is set.

    Raises:
        NotFoundError: there is none with this id, or it was removed.
    """
    found = _require(_run(conn, _SQL.get_subscription, {"id": subscription_id}), subscription_id)
    if found.removed_at is not None and not with_removed:
        raise NotFoundError(f"Subscription {subscription_id} was removed.")
    return found


def find_subscription(conn: Connection[Any], text: str) -> Subscription:
    """Give the subscription with this id, or else with this name.

    Raises:
        NotFoundError: there is none.
        ConflictError: several have this name.
    """
    wanted = parse_id(text)
    if wanted is not None:
        return get_subscription(conn, wanted)
    try:
        name = check_line(text, field="subscription", longest=LONGEST_NAME)
    except InvalidInputError as error:
        raise NotFoundError(f"There is no subscription named {text!r}.") from error
    query = sql.SQL(_SQL.find_by_name).format(columns=_COLUMNS)
    with conn.cursor(row_factory=kwargs_row(_subscription)) as cur:
        found = cur.execute(query, {"name": name}).fetchall()
    if not found:
        raise NotFoundError(f"There is no subscription named {text!r}.")
    if len(found) > 1:
        raise ConflictError(f"Several subscriptions are named {text!r}; give the id of one.")
    return found[0]


def list_subscriptions(
    conn: Connection[Any],
    *,
    limit: int = 50,
    after: Position | None = None,
    before: Position | None = None,
    with_removed: bool = False,
) -> Page[Subscription]:
    """List subscriptions, the newest first, without the removed ones unless they are asked for."""
    return fetch_page(
        conn,
        sql.SQL(_SQL.list_subscriptions),
        {"with_removed": with_removed},
        row_factory=kwargs_row(_subscription),
        position=lambda row: Position(row.id),
        limit=limit,
        after=after,
        before=before,
        parts={"columns": _COLUMNS},
    )


def lock_subscription(conn: Connection[Any], subscription_id: UUID) -> Subscription:
    """Give one subscription, and keep others from changing it until the transaction ends.

    Take it before ``read_change``, which judges the change against what is there.

    Raises:
        NotFoundError: there is none with this id, or it was removed.
    """
    need_transaction(conn)
    return _require(_run(conn, _SQL.lock_subscription, {"id": subscription_id}), subscription_id)


def update_subscription(
    conn: Connection[Any],
    endpoint_keyring: Keyring,
    subscription_id: UUID,
    change: SubscriptionChange,
    *,
    actor: str,
) -> Subscription:
    """Change a subscription; requests that are built from now on follow it.

    Args:
        conn: inside the transaction of ``lock_subscription``; the caller commits.
        endpoint_keyring: seals what is new, and opens the secrets when the scheme changes.
        subscription_id: which one.
        change: from ``read_change``.
        actor: who changes it.

    Raises:
        NotFoundError: there is none with this id, or it was removed.
        InvalidInputError: ``signature_scheme``: a secret in use cannot sign in it.
    """
    was = lock_subscription(conn, subscription_id)
    if change.terms.signature_scheme != was.signature_scheme:
        rows = conn.execute(_SQL.list_secrets, {"id": subscription_id})
        sealed.check_secrets(endpoint_keyring, was.id, rows, change.terms.signature_scheme)
    params = {
        "id": subscription_id,
        **_plain(change.terms),
        **sealed.endpoint(endpoint_keyring, subscription_id, change.endpoint),
        **sealed.headers(endpoint_keyring, subscription_id, change.headers),
    }
    found = _require(_run(conn, _SQL.update_subscription, params), subscription_id)
    before, now = asdict(was), asdict(found)
    changed = {name: now[name] for name in now if now[name] != before[name]}
    if change.headers is not None:
        changed["headers"] = "replaced"
    _log(conn, found, actor=actor, action="subscription.update", params=changed)
    return found


def pause_subscription(
    conn: Connection[Any], subscription_id: UUID, *, reason: str | None = None, actor: str
) -> Subscription:
    """Hold a subscription's deliveries until it is resumed; pausing it twice changes nothing.

    Args:
        conn: inside a transaction; the caller commits.
        subscription_id: which one.
        reason: shown to everybody; None: says who paused it.
        actor: who pauses it.

    Raises:
        NotFoundError: there is none with this id, or it was removed.
        InvalidInputError: ``reason``.
    """
    was = lock_subscription(conn, subscription_id)
    why = check_line(reason or f"paused by {actor}", field="reason", longest=LONGEST_REASON)
    paused = _run(conn, _SQL.pause_subscription, {"id": subscription_id, "reason": why})
    if paused is not None:
        _log(conn, paused, actor=actor, action="subscription.pause", params={"reason": why})
    return paused or was


def resume_subscription(
    conn: Connection[Any], subscription_id: UUID, *, actor: str
) -> Subscription:
    """Send a paused subscription's held deliveries; resuming it twice changes nothing.

    Raises:
        NotFoundError: there is none with this id, or it was removed.
    """
    was = lock_subscription(conn, subscription_id)
    resumed = _run(conn, _SQL.resume_subscription, {"id": subscription_id})
    if resumed is not None:
        _log(conn, resumed, actor=actor, action="subscription.resume", params={})
    return resumed or was


def remove_subscription(
    conn: Connection[Any], subscription_id: UUID, *, actor: str
) -> Subscription:
    """Remove a subscription: workers dead-letter what still waits for it; its history stays.

    Raises:
        NotFoundError: there is none with this id, or it was removed before.
    """
    lock_subscription(conn, subscription_id)
    query = _SQL.remove_subscription
    removed = _require(_run(conn, query, {"id": subscription_id}), subscription_id)
    _log(conn, removed, actor=actor, action="subscription.remove", params={"name": removed.name})
    return removed


def publish_test(
    conn: Connection[Any], subscription_id: UUID, *, producer: Producer, actor: str
) -> UUID:
    """Publish a ``fencepost.test`` event that this subscription alone receives; give its id.

    Whatever it listens to: a worker sends it as it sends everything. A paused one holds it.

    Args:
        conn: inside a transaction; the caller commits.
        subscription_id: which one.
        producer: seals the payload.
        actor: who tests.

    Raises:
        NotFoundError: there is none with this id, or it was removed.
    """
    found = lock_subscription(conn, subscription_id)
    payload = {
        "type": TEST_EVENT_TYPE,
        "message": "This is a test. Nothing happened that you need to act on.",
        "subscription": {"id": str(found.id), "name": found.name},
    }
    event_id = publish_to_one(conn, subscription_id, payload, producer=producer)
    params = {"event_id": str(event_id)}
    _log(conn, found, actor=actor, action="subscription.test", params=params)
    return event_id


def _plain(terms: Terms) -> dict[str, Any]:
    values: dict[str, Any] = asdict(terms)
    for name in ("event_types", "retry_statuses", "no_retry_statuses"):
        values[name] = list(values[name])
    return values | {"event_type_patterns": [to_like(glob) for glob in terms.event_types]}


def _subscription(**columns: Any) -> Subscription:  # noqa: ANN401 - a row
    lists = ("event_types", "header_names", "retry_statuses", "no_retry_statuses")
    return Subscription(**{**columns, **{name: tuple(columns[name]) for name in lists}})


def _run(conn: Connection[Any], query: str, params: Mapping[str, Any]) -> Subscription | None:
    composed = sql.SQL(query).format(columns=_COLUMNS)
    with conn.cursor(row_factory=kwargs_row(_subscription)) as cur:
        return cur.execute(composed, params).fetchone()


def _require(found: Subscription | None, subscription_id: UUID) -> Subscription:
    if found is None:
        raise NotFoundError(f"There is no subscription {subscription_id}.")
    return found


def _log(
    conn: Connection[Any],
    found: Subscription,
    *,
    actor: str,
    action: str,
    params: Mapping[str, object],
) -> None:
    log_action(conn, actor=actor, action=action, target=str(found.id), params=params, affected=1)
