"""Subscriptions: who receives what, where, and signed with which secret."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from flask import jsonify
from flask.typing import ResponseReturnValue

from dashboard.api.acting import acting
from dashboard.api.deliveries import REASON
from dashboard.api.fields import Field, accepts, read_object
from dashboard.api.pages import as_page, read_positions
from dashboard.api.parameters import WINDOW, takes
from dashboard.api.routes import blueprint
from dashboard.database import transaction
from dashboard.ids import read_id
from dashboard.roles import requires
from dashboard.runtime import runtime
from fencepost import objects
from fencepost.store import secrets, subscriptions
from fencepost.subscription_spec import read_change, read_spec

OVERLAP: Final = Field(
    "overlap_seconds",
    "number",
    f"how long the old secret signs too; {secrets.OVERLAP.total_seconds():.0f} when not given",
    minimum=0,
    maximum=timedelta(days=30).total_seconds(),
)


@blueprint.get("/subscriptions")
@requires("viewer")
@takes(*WINDOW)
def list_subscriptions() -> ResponseReturnValue:
    """List subscriptions, the newest first."""
    window = read_positions("subscriptions")
    with transaction() as conn:
        page = subscriptions.list_subscriptions(
            conn, limit=window.limit, after=window.after, before=window.before
        )
    return as_page(page, objects.subscription_json, scope="subscriptions")


@blueprint.post("/subscriptions")
@requires("admin")
def create_subscription() -> ResponseReturnValue:
    """Add a subscription; its signing secret is in this answer alone."""
    found = runtime()
    spec = read_spec(
        read_object(),
        allow_http=found.settings.allow_http,
        allow_networks=found.settings.allow_networks,
    )
    with acting("subscription.add") as (conn, actor):
        added, secret = subscriptions.add_subscription(
            conn, found.endpoint_keyring, spec, actor=actor
        )
    place = f"/api/v1/subscriptions/{added.id}"
    return jsonify(objects.subscription_json(added, secret=secret)), 201, {"Location": place}


@blueprint.get("/subscriptions/<subscription_id>")
@requires("viewer")
def read_subscription(subscription_id: str) -> ResponseReturnValue:
    """Give one subscription."""
    wanted = read_id(subscription_id, "subscription")
    with transaction() as conn:
        found = subscriptions.get_subscription(conn, wanted)
    return jsonify(objects.subscription_json(found))


@blueprint.patch("/subscriptions/<subscription_id>")
@requires("admin")
def update_subscription(subscription_id: str) -> ResponseReturnValue:
    """Change what the body names; what is null gets its default."""
    wanted, body, found = read_id(subscription_id, "subscription"), read_object(), runtime()
    with acting("subscription.update", wanted) as (conn, actor):
        change = read_change(
            body,
            subscriptions.lock_subscription(conn, wanted),
            allow_http=found.settings.allow_http,
            allow_networks=found.settings.allow_networks,
        )
        changed = subscriptions.update_subscription(
            conn, found.endpoint_keyring, wanted, change, actor=actor
        )
    return jsonify(objects.subscription_json(changed))


@blueprint.delete("/subscriptions/<subscription_id>")
@requires("admin")
@accepts()
def remove_subscription(subscription_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """Remove a subscription: what waits for it is dead-lettered, its history stays."""
    wanted = read_id(subscription_id, "subscription")
    with acting("subscription.remove", wanted, asked=body) as (conn, actor):
        subscriptions.remove_subscription(conn, wanted, actor=actor)
    return "", 204


@blueprint.post("/subscriptions/<subscription_id>/pause")
@requires("operator")
@accepts(REASON)
def pause_subscription(subscription_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """Hold its deliveries until it is resumed."""
    wanted = read_id(subscription_id, "subscription")
    with acting("subscription.pause", wanted, asked=body) as (conn, actor):
        found = subscriptions.pause_subscription(
            conn, wanted, reason=body.get("reason"), actor=actor
        )
    return jsonify(objects.subscription_json(found))


@blueprint.post("/subscriptions/<subscription_id>/resume")
@requires("operator")
@accepts()
def resume_subscription(subscription_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """Send what was held, and what comes."""
    wanted = read_id(subscription_id, "subscription")
    with acting("subscription.resume", wanted, asked=body) as (conn, actor):
        found = subscriptions.resume_subscription(conn, wanted, actor=actor)
    return jsonify(objects.subscription_json(found))


@blueprint.post("/subscriptions/<subscription_id>/rotate-secret")
@requires("admin")
@accepts(OVERLAP)
def rotate_secret(subscription_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """Make a new signing secret, shown in this answer alone; the old one signs on for a while."""
    wanted = read_id(subscription_id, "subscription")
    overlap = secrets.OVERLAP
    if "overlap_seconds" in body:
        overlap = timedelta(seconds=body["overlap_seconds"])
    with acting("subscription.rotate_secret", wanted, asked=body) as (conn, actor):
        found, secret = secrets.rotate_secret(
            conn, runtime().endpoint_keyring, wanted, overlap=overlap, actor=actor
        )
    return jsonify(objects.subscription_json(found, secret=secret))


@blueprint.post("/subscriptions/<subscription_id>/revoke-secret")
@requires("admin")
@accepts()
def revoke_secret(subscription_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """End the secrets that a rotation left valid; ``revoked`` says how many there were."""
    wanted = read_id(subscription_id, "subscription")
    with acting("subscription.revoke_secret", wanted, asked=body) as (conn, actor):
        revoked = secrets.revoke_secret(conn, wanted, actor=actor)
        found = subscriptions.get_subscription(conn, wanted)
    return jsonify(objects.subscription_json(found) | {"revoked": revoked})


@blueprint.post("/subscriptions/<subscription_id>/test")
@requires("operator")
@accepts()
def test_subscription(subscription_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """Publish an event that this subscription alone receives; a worker sends it like any other."""
    wanted = read_id(subscription_id, "subscription")
    with acting("subscription.test", wanted, asked=body) as (conn, actor):
        event_id = subscriptions.publish_test(
            conn, wanted, producer=runtime().producer(), actor=actor
        )
    return jsonify(id=str(event_id), duplicate=False), 202
