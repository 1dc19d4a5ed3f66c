"""Bulk discards through the API: what a page can do, a program can."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import Connection

from api_client import Api
from factories import make_deliveries, make_subscription
from fencepost.store import giving_up


@pytest.fixture
def sub(owner: Connection[Any]) -> UUID:
    return make_subscription(owner)


def draft(api: Api, sub: UUID, **more: Any) -> Any:
    body = {"filter": {"sub": str(sub), "state": ["encrypted"]}, **more}
    return api.post("/discards", role="operator", json=body, status=201)


def test_a_discard_is_drafted_started_and_done(api: Api, owner: Connection[Any], sub: UUID) -> None:
    make_deliveries(owner, sub, 3, due="fencepost_now() + interval '1 hour'")
    found = draft(api, sub)
    assert (found["state"], found["eligible"], found["remaining"]) == ("DRAFT", 3, 3)
    path = f"/discards/{found['id']}"
    api.post(f"{path}/start", role="operator", json={"reason": "x", "confirm": 2}, status=422)
    api.post(f"{path}/start", role="operator", json={}, status=422)
    body = {"reason": "obsolete", "confirm": 3}
    assert api.post(f"{path}/start", role="operator", json=body)["state"] == "RUNNING"
    run = giving_up.take_running(owner)
    assert run is not None
    giving_up.discard_batch(owner, run)
    done = api.get(path)
    assert (done["state"], done["discarded"], done["reason"]) == ("DONE", 3, "obsolete")
    api.post(f"{path}/cancel", role="operator", json={}, status=409)


def test_a_draft_is_dropped(api: Api, sub: UUID) -> None:
    path = f"/discards/{draft(api, sub)['id']}"
    assert api.post(f"{path}/cancel", role="operator", json={})["state"] == "CANCELLED"
    api.post(f"{path}/start", role="operator", json={"reason": "x"}, status=409)


def test_a_viewer_orders_none_and_an_unknown_one_is_not_found(api: Api, sub: UUID) -> None:
    api.post("/discards", role="viewer", json={"filter": {"sub": str(sub)}}, status=403)
    api.get(f"/discards/{uuid4()}", status=404)
