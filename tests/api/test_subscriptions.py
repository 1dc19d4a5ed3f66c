"""Subscriptions over HTTP: everything about an endpoint but its secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from api_client import Api
from fencepost.settings import Settings
from fencepost.store.events import read_payload

FIELDS = {
    "id", "name", "url", "event_types", "signature_scheme", "signature_header", "headers",
    "max_attempts", "backoff_base_seconds", "backoff_cap_seconds", "retry_preset",
    "retry_statuses", "no_retry_statuses", "max_in_flight", "rate_limit_per_second", "ordered",
    "state", "paused_reason", "created_at",
}  # fmt: skip


def actions_on(owner: Connection[Any], target: str) -> list[tuple[Any, ...]]:
    return owner.execute(
        "SELECT action, outcome FROM webhook_operator_actions WHERE target = %s ORDER BY id",
        (target,),
    ).fetchall()


def test_a_subscription_is_made_with_its_defaults(api: Api) -> None:
    response = api.call(
        "POST", "/subscriptions", json={"name": "a", "url": "http://127.0.0.1:9009/"}, status=201
    )
    made: Any = response.json
    assert made.keys() >= FIELDS | {"secret"}
    assert made["secret"].startswith("whsec_")
    assert (made["event_types"], made["signature_scheme"]) == (["*"], "standard")
    assert (made["max_attempts"], made["state"], made["ordered"]) == (5, "active", False)
    assert response.headers["Location"] == f"/api/v1/subscriptions/{made['id']}"
    assert response.headers["Cache-Control"] == "no-store"


def test_secrets_are_never_shown_again(api: Api, owner: Connection[Any]) -> None:
    made = api.subscribe(
        url="http://127.0.0.1:9009/hook?key=tell-nobody", headers={"X-Api-Key": "tell-nobody"}
    )
    texts = [
        api.call("GET", f"/subscriptions/{made['id']}", role="viewer").text,
        api.call("GET", "/subscriptions?limit=100", role="viewer").text,
        api.call("PATCH", f"/subscriptions/{made['id']}", json={"name": "b"}).text,
        api.call("POST", f"/subscriptions/{made['id']}/pause").text,
        str(owner.execute("SELECT params FROM webhook_operator_actions").fetchall()),
    ]
    for text in texts:
        assert "tell-nobody" not in text
        assert made["secret"] not in text
    shown = api.get(f"/subscriptions/{made['id']}")
    assert shown["headers"] == {"X-Api-Key": "••••"}
    assert "secret" not in shown


def test_a_subscription_changes_by_what_is_named(api: Api, owner: Connection[Any]) -> None:
    made = api.subscribe(event_types=["invoice.*"], max_attempts=3)
    path = f"/subscriptions/{made['id']}"
    change = {"name": "renamed", "max_attempts": None, "headers": {"X-A": "1"}}
    changed = api.call("PATCH", path, json=change, status=200).json
    assert changed == api.get(path)
    assert changed["name"] == "renamed"
    assert (changed["max_attempts"], changed["event_types"]) == (5, ["invoice.*"])
    assert actions_on(owner, made["id"]) == [
        ("subscription.add", "done"),
        ("subscription.update", "done"),
    ]


def test_it_is_paused_resumed_and_removed(api: Api, owner: Connection[Any]) -> None:
    path = f"/subscriptions/{(made := api.subscribe())['id']}"
    paused = api.post(f"{path}/pause", role="operator", json={"reason": "moving house"})
    assert (paused["state"], paused["paused_reason"]) == ("paused", "moving house")
    resumed = api.post(f"{path}/resume", role="operator")
    assert (resumed["state"], resumed["paused_reason"]) == ("active", None)
    assert api.call("DELETE", path, status=204).data == b""
    assert api.get(path, status=404)["code"] == "not_found"
    assert api.call("DELETE", path, status=404)
    assert made["id"] not in {row["id"] for row in api.get("/subscriptions?limit=100")["data"]}
    assert [action for action, _ in actions_on(owner, made["id"])] == [
        "subscription.add", "subscription.pause", "subscription.resume", "subscription.remove",
    ]  # fmt: skip


def test_a_secret_is_rotated_with_an_overlap_and_revoked(api: Api, owner: Connection[Any]) -> None:
    made = api.subscribe()
    path = f"/subscriptions/{made['id']}"
    rotated = api.post(f"{path}/rotate-secret", json={"overlap_seconds": 60})
    assert rotated["secret"].startswith("whsec_")
    assert rotated["secret"] != made["secret"]
    assert rotated["id"] == made["id"]
    overlaps = owner.execute(
        "SELECT expires_at - fencepost_now() BETWEEN interval '50 s' AND interval '60 s'"
        "  FROM webhook_signing_secrets WHERE subscription_id = %s AND expires_at IS NOT NULL",
        (made["id"],),
    ).fetchall()
    assert overlaps == [(True,)]
    revoked = api.post(f"{path}/revoke-secret")
    assert (revoked["id"], revoked["revoked"], "secret" in revoked) == (made["id"], 1, False)
    assert api.post(f"{path}/revoke-secret")["revoked"] == 0


def test_a_test_is_an_event_for_this_subscription_alone(
    api: Api, owner: Connection[Any], api_settings: Settings, fan_out: Callable[[], int]
) -> None:
    fan_out()
    made = api.subscribe(event_types=["nothing.of.the.kind"])
    api.subscribe(event_types=["*"])
    answer = api.post(f"/subscriptions/{made['id']}/test", role="operator", status=202)
    assert answer["duplicate"] is False
    assert fan_out() == 1
    event = api.get(f"/events/{answer['id']}")
    assert event["event_type"] == "fencepost.test"
    assert [row["subscription_id"] for row in event["deliveries"]] == [made["id"]]
    assert b"test" in read_payload(owner, api_settings.keyring(), UUID(answer["id"]))
    assert actions_on(owner, made["id"])[-1] == ("subscription.test", "done")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 121}, "name"),
        ({"url": None}, "url"),
        ({"url": "not a url"}, "url"),
        ({"url": "http://169.254.169.254/latest"}, "url"),
        ({"url": "http://10.0.0.1/"}, "url"),
        ({"url": "http://u:p@127.0.0.1/"}, "url"),
        ({"url": "ftp://127.0.0.1/"}, "url"),
        ({"url": "http://127.0.0.1:0/"}, "url"),
        ({"url": "http://127.0.0.1/" + "x" * 3000}, "url"),
        ({"url": 7}, "url"),
        ({"event_types": ["(a+)+$"]}, "event_types"),
        ({"event_types": "a.*"}, "event_types"),
        ({"event_types": ["a"] * 201}, "event_types"),
        ({"signature_scheme": "none"}, "signature_scheme"),
        ({"headers": {"Host": "evil"}}, "headers"),
        ({"headers": {"X": "a\r\nb"}}, "headers"),
        ({"headers": {"Webhook-Id": "1"}}, "headers"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "headers"),
        ({"headers": []}, "headers"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": "5"}, "max_attempts"),
        ({"backoff_base_seconds": -1}, "backoff_base_seconds"),
        ({"retry_preset": "for-ever"}, "retry_preset"),
        ({"retry_statuses": [200]}, "retry_statuses"),
        ({"secret": "short"}, "secret"),
        ({"secret": "whsec_"}, "secret"),
        ({"max_in_flight": 0}, "max_in_flight"),
        ({"rate_limit_per_second": -5}, "rate_limit_per_second"),
        ({"ordered": "yes"}, "ordered"),
        ({"id": str(UUID(int=7))}, "id"),
        ({"state": "paused"}, "state"),
    ],
)
def test_a_bad_field_is_named_and_nothing_is_made(
    api: Api, owner: Connection[Any], fields: dict[str, Any], field: str
) -> None:
    count = "SELECT count(*) FROM webhook_subscriptions"
    before = owner.execute(count).fetchone()
    whole = {"name": "orders", "url": "http://127.0.0.1:9009/hook", **fields}
    assert api.post("/subscriptions", json=whole, status=422)["field"] == field
    assert owner.execute(count).fetchone() == before


@pytest.mark.parametrize(
    ("change", "field"),
    [({"secret": "whsec_x"}, "secret"), ({"url": "http://10.0.0.1/"}, "url"), ({"x": 1}, "x")],
)
def test_a_bad_change_changes_nothing(api: Api, change: dict[str, Any], field: str) -> None:
    made = api.subscribe()
    path = f"/subscriptions/{made['id']}"
    before = api.get(path)
    problem: Any = api.call("PATCH", path, json={"name": "new", **change}, status=422).json
    assert problem["field"] == field
    assert api.get(path) == before


@pytest.mark.parametrize("overlap", [-1, 30 * 86_400 + 1, "60", None, 10**17])
def test_an_overlap_has_its_bounds(api: Api, overlap: Any) -> None:
    path = f"/subscriptions/{api.subscribe()['id']}/rotate-secret"
    problem = api.post(path, json={"overlap_seconds": overlap}, status=422)
    assert problem["field"] == "overlap_seconds"


@pytest.mark.parametrize("id_", ["7", str(UUID(int=7))])
def test_what_is_not_there_is_not_found(api: Api, id_: str) -> None:
    path = f"/subscriptions/{id_}"
    api.get(path, status=404)
    api.call("PATCH", path, json={"name": "x"}, status=404)
    api.call("DELETE", path, status=404)
    for act in ("pause", "resume", "rotate-secret", "revoke-secret", "test"):
        api.post(f"{path}/{act}", status=404)


def test_the_list_has_pages(api: Api) -> None:
    made = [api.subscribe(name=f"page {number}")["id"] for number in range(3)]
    first = api.get("/subscriptions?limit=2")
    assert [row["id"] for row in first["data"]] == made[:0:-1]
    second = api.get(f"/subscriptions?limit=1&after={first['next']}")
    assert [row["id"] for row in second["data"]] == made[:1]
    assert api.get("/subscriptions?state=active", status=422)["field"] == "state"
