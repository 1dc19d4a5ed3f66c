"""Every page there is, with something on it: a page without an example fails the tests."""

from __future__ import annotations

from typing import Final
from uuid import UUID, uuid4

from flask import Flask
from werkzeug.routing import Rule

from fencepost.filters import DeliveryFilter
from fencepost.records import Replay
from fencepost.states import State
from fencepost.store import discards, replays
from minutes import add_hour
from stage import Stage

Tour = dict[str, list[str]]
"""Paths by the endpoint of their route."""

NO_PAGES: Final = frozenset(
    {
        "assets.file", "assets.favicon", "assets.robots", "health.healthz", "health.readyz",
        "health.metrics", "live.stream", "overview.home", "deliveries.as_json",
        "deliveries.as_csv", "dlq.export",
    }
)  # fmt: skip
"""Endpoints that answer with something else: files, figures, streams, redirects."""
FOR_STRANGERS: Final = frozenset({"session.login", "session.link"})
"""Endpoints whose pages show themselves to those who are not logged in."""


def tour(stage: Stage) -> Tour:
    """Play what the pages show, and give their addresses, each page in every form that it has."""
    sub = stage.subscription("a subscription with a long name → " + "x" * 60)
    waiting, sent, fenced, given_up = stage.deliveries(sub.id, 4)
    stage.beat()
    stage.send(sent, 503)
    stage.send(sent, 200)
    stage.give_payload(sent, b'{"invoice": 12345678901234567, "paid": true}')
    lease = stage.claim(fenced)
    stage.attempt(lease)
    stage.expire(fenced)
    stage.settle(lease, 200)
    stage.send(given_up, 503)
    stage.discard(given_up)
    (dead, *_) = stage.dead(sub.id, 3)
    paused = stage.subscription("paused by its receiver")
    (held,) = stage.deliveries(paused.id)
    stage.conn.execute(
        "UPDATE webhook_subscriptions SET state = 'paused', paused_reason = 'HTTP 410',"
        " paused_at = fencepost_now() WHERE id = %s",
        (paused.id,),
    )
    add_hour(stage, sub.id)
    event = stage.value("SELECT event_id FROM webhook_deliveries WHERE id = %s", sent)
    fresh = stage.value("SELECT webhook_publish('order.paid', '{}')")
    draft, nothing = _draft(stage, sub.id), _draft(stage, uuid4())
    running = _start(stage, _draft(stage, sub.id))
    cancelled = _start(stage, _draft(stage, sub.id))
    with stage.conn.transaction():
        replays.cancel_replay(stage.conn, cancelled.id, actor="test")
    unsure, giving_up, gave_up = (_discard(stage, sub.id, state) for state in _DISCARDS)
    shown, confirm = f"/deliveries/{sent}", f"/subscriptions/{sub.id}/confirm"
    return {
        "overview.index": ["/overview"],
        "deliveries.index": [
            "/deliveries", f"/deliveries?sub={sub.id}&state=dlq&code=404",
            "/deliveries?q=nothing-like-it",
        ],
        "deliveries.show": [
            f"/deliveries/{waiting}", shown, f"{shown}?scale=compressed", f"{shown}?attempt=1",
            f"{shown}?tab=attempts", f"{shown}?tab=payload", f"{shown}?tab=audit",
            f"/deliveries/{fenced}", f"/deliveries/{held}", f"/deliveries/{given_up}",
            f"/deliveries/{dead}",
        ],
        "deliveries.attempt": [f"{shown}/attempts/1", f"{shown}/attempts/2"],
        "deliveries.confirm": [
            f"/deliveries/{dead}/confirm/replay", f"/deliveries/{dead}/confirm/discard",
            f"{shown}/confirm/replay",
        ],
        "discards.show": [f"/discards/{each}" for each in (unsure, giving_up, gave_up)],
        "discards.confirm_cancel": [f"/discards/{giving_up}/confirm/cancel"],
        "dlq.index": [
            "/dlq", f"/dlq?sub={sub.id}&code=404", "/dlq?q=nothing-like-it", "/dlq?group=none",
            f"/dlq?group=none&sub={sub.id}&code=404", "/dlq?group=none&q=nothing-like-it",
        ],
        "events.show": [f"/events/{event}", f"/events/{fresh}"],
        "replays.index": ["/replays"],
        "replays.show": [f"/replays/{each.id}" for each in (draft, nothing, running, cancelled)],
        "replays.confirm_cancel": [f"/replays/{running.id}/confirm/cancel"],
        "search.index": ["/search", f"/search?q={str(waiting)[:8]}", "/search?q=nothing-like-it"],
        "session.login": ["/login"],
        "session.link": [f"/login/{stage.link('a stranger')}"],
        "settings.index": ["/settings"],
        "subscriptions.index": ["/subscriptions"],
        "subscriptions.new": ["/subscriptions/new"],
        "subscriptions.show": [f"/subscriptions/{sub.id}", f"/subscriptions/{paused.id}"],
        "subscriptions.confirm": [
            *(f"{confirm}/{name}" for name in ("pause", "test", "rotate-secret", "remove")),
            f"/subscriptions/{paused.id}/confirm/resume",
        ],
        "workers.index": ["/workers"],
        "audit.index": ["/audit"],
    }  # fmt: skip


def pages(app: Flask) -> list[Rule]:
    """Give the routes of all pages there are, as the application knows them."""
    return [
        rule
        for rule in app.url_map.iter_rules()
        if "GET" in (rule.methods or ())
        and not rule.rule.startswith(("/_f/", "/api/"))
        and rule.endpoint not in NO_PAGES
    ]


def beginnings(app: Flask) -> list[str]:
    """Give the pages that are there before there is anything to show."""
    found = pages(app)
    return sorted(
        rule.rule for rule in found if not rule.arguments and rule.endpoint not in FOR_STRANGERS
    )


def faults() -> dict[str, int]:
    """Give addresses of pages that say what is wrong, with their status."""
    return {
        "/nowhere": 404, f"/deliveries/{uuid4()}": 404, f"/replays/{uuid4()}": 404,
        "/deliveries?code=1e3": 422, "/dlq?limit=7": 422,
    }  # fmt: skip


def _draft(stage: Stage, sub: UUID) -> Replay:
    scope = DeliveryFilter(sub=(sub,), state=(State.DLQ,))
    with stage.conn.transaction():
        return replays.draft_replay(stage.conn, scope, actor="test")


_DISCARDS: Final = ("DRAFT", "RUNNING", "CANCELLED")


def _discard(stage: Stage, sub: UUID, state: str) -> UUID:
    """Order a discard, and bring it so far."""
    with stage.conn.transaction():
        scope = DeliveryFilter(sub=(sub,), state=(State.DLQ,))
        found = discards.draft_discard(stage.conn, scope, reason="obsolete", actor="test")
        if state != "DRAFT":
            discards.start_discard(stage.conn, found.id, actor="test")
        if state == "CANCELLED":
            discards.cancel_discard(stage.conn, found.id, actor="test")
    return found.id


def _start(stage: Stage, draft: Replay) -> Replay:
    with stage.conn.transaction():
        return replays.start_replay(stage.conn, draft.id, actor="test", reason="they mended it")
