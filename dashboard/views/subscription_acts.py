"""What can be done to a subscription: adding one, and all that asks first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from flask import Response, abort, g, request, url_for
from psycopg import Connection
from werkzeug.exceptions import Forbidden
from werkzeug.wrappers import Response as BaseResponse

from dashboard import actions
from dashboard.database import connection, transaction
from dashboard.htmx import go, render
from dashboard.ids import read_id
from dashboard.roles import requires
from dashboard.runtime import runtime
from dashboard.views.subscriptions import blueprint
from fencepost import retry, signing
from fencepost.errors import InvalidInputError
from fencepost.store import secrets, subscriptions
from fencepost.store.standing import read_standing
from fencepost.subscription_spec import read_spec


@blueprint.get("/subscriptions/new")
@requires("admin")
def new() -> Response:
    """Show the form for a new one."""
    return _form()


@blueprint.post("/subscriptions")
@requires("admin")
def add() -> Response:
    """Add it, and show its secret this once."""
    settings = runtime().settings
    try:
        spec = read_spec(
            _fields(), allow_http=settings.allow_http, allow_networks=settings.allow_networks
        )
        with transaction() as conn:
            added, secret = subscriptions.add_subscription(
                conn, runtime().endpoint_keyring, spec, actor=str(g.actor)
            )
    except InvalidInputError as error:
        return _form(faults={error.field: str(error)}, status=422)
    return render(
        "subscriptions/secret.html", subscription=added, secret=secret, is_new=True, status=201
    )


@blueprint.get("/subscriptions/<subscription_id>/confirm/<name>")
@requires("operator")
def confirm(subscription_id: str, name: str) -> Response:
    """Ask before something is done to it."""
    return _ask(read_id(subscription_id, "subscription"), name)


@blueprint.post("/subscriptions/<subscription_id>/<any(pause, resume, test):name>")
@requires("operator")
def act(subscription_id: str, name: str) -> BaseResponse:
    """Pause it, resume it, or send it a test event, and show what came of it."""
    id_ = read_id(subscription_id, "subscription")
    try:
        with transaction() as conn:
            event_id = _OPERATE[name](conn, id_)
    except InvalidInputError as error:
        return _ask(id_, name, faults={error.field: str(error)}, status=422)
    if event_id is not None:
        return go(url_for("events.show", event_id=event_id))
    return go(url_for(".show", subscription_id=id_))


@blueprint.post("/subscriptions/<subscription_id>/rotate-secret")
@requires("admin")
def rotate(subscription_id: str) -> Response:
    """Make a new secret, and show it this once."""
    id_ = read_id(subscription_id, "subscription")
    with transaction() as conn:
        found, secret = secrets.rotate_secret(
            conn, runtime().endpoint_keyring, id_, actor=str(g.actor)
        )
    return render("subscriptions/secret.html", subscription=found, secret=secret, is_new=False)


@blueprint.post("/subscriptions/<subscription_id>/<any('revoke-secret', remove):name>")
@requires("admin")
def administer(subscription_id: str, name: str) -> BaseResponse:
    """End its old secrets, or the subscription itself."""
    id_ = read_id(subscription_id, "subscription")
    with transaction() as conn:
        if name == "remove":
            subscriptions.remove_subscription(conn, id_, actor=str(g.actor))
        else:
            secrets.revoke_secret(conn, id_, actor=str(g.actor))
    return go(url_for(".show", subscription_id=id_))


def _pause(conn: Connection[Any], id_: UUID) -> None:
    reason = request.form.get("reason", "").strip() or None
    subscriptions.pause_subscription(conn, id_, reason=reason, actor=str(g.actor))


def _resume(conn: Connection[Any], id_: UUID) -> None:
    subscriptions.resume_subscription(conn, id_, actor=str(g.actor))


def _test(conn: Connection[Any], id_: UUID) -> UUID:
    return subscriptions.publish_test(conn, id_, producer=runtime().producer(), actor=str(g.actor))


_OPERATE: Final[Mapping[str, Callable[[Connection[Any], UUID], UUID | None]]] = MappingProxyType(
    {"pause": _pause, "resume": _resume, "test": _test}
)


def _ask(
    id_: UUID, name: str, *, faults: Mapping[str, str] | None = None, status: int = 200
) -> Response:
    action = next((each for each in actions.OF_SUBSCRIPTIONS if each.name == name), None)
    if action is None:
        abort(404)
    if not g.actor.role.may(action.role):
        raise Forbidden(f"This needs the role {action.role}.")
    found = subscriptions.get_subscription(connection(), id_)
    standing = read_standing(connection(), id_)
    return render(
        "subscriptions/confirm.html",
        status=status,
        subscription=found,
        action=action,
        standing=standing,
        faults=faults,
        reason=request.form.get("reason", ""),
    )


def _form(*, faults: Mapping[str, str] | None = None, status: int = 200) -> Response:
    return render(
        "subscriptions/new.html",
        status=status,
        given=request.form,
        faults=faults or {},
        schemes=signing.SCHEMES,
        presets=list(retry.PRESETS),
    )


def _fields() -> dict[str, Any]:
    """Read the form; what was left empty has its default."""
    form = request.form
    fields: dict[str, Any] = {"name": form.get("name", ""), "url": form.get("url", "")}
    for name in ("signature_scheme", "signature_header", "retry_preset"):
        if form.get(name):
            fields[name] = form[name]
    if types := form.get("event_types", "").replace(",", " ").split():
        fields["event_types"] = types
    if text := form.get("max_attempts", "").strip():
        fields["max_attempts"] = int(text) if text.isascii() and text.isdecimal() else text
    return fields
