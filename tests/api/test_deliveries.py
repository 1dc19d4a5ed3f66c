"""Deliveries over HTTP: lists by cursor, timelines, and what operators do to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection

from api_client import Api
from factories import make_deliveries, make_subscription, trail
from fencepost.filters import NAMES

DELIVERY = {
    "id", "event_id", "event_type", "subscription_id", "state", "attempt_count", "max_attempts",
    "next_attempt_at", "worker_id", "fencing_token", "lease_expires_at", "last_status",
    "last_error", "created_at", "updated_at",
}  # fmt: skip
TIMELINE_ROW = {
    "seq", "state", "at", "worker_id", "fencing_token", "http_status_code", "latency_ms",
    "error_message", "detail",
}  # fmt: skip
SEGMENT = {
    "kind", "start_ms", "duration_ms", "worker_id", "fencing_token", "attempt", "outcome",
    "waited_for", "is_open", "seq",
}  # fmt: skip


@pytest.fixture
def sub(owner: Connection[Any]) -> UUID:
    return make_subscription(owner)


@pytest.fixture
def delivery(owner: Connection[Any], sub: UUID) -> UUID:
    return make_deliveries(owner, sub)[0]


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Count what is sent to the database, by whichever way it goes there."""
    sent: list[object] = []
    execute = psycopg.Cursor.execute

    def counting(self: psycopg.Cursor[Any], query: Any, *rest: Any, **options: Any) -> Any:
        sent.append(query)
        return execute(self, query, *rest, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", counting)
    return lambda: len(sent)


def actions_on(owner: Connection[Any], target: UUID | str) -> list[tuple[Any, ...]]:
    return owner.execute(
        "SELECT actor, action, outcome FROM webhook_operator_actions WHERE target = %s ORDER BY id",
        (str(target),),
    ).fetchall()


def test_a_delivery_has_the_fields_of_the_contract(api: Api, delivery: UUID) -> None:
    found = api.get(f"/deliveries/{delivery}", role="viewer")
    assert found.keys() >= DELIVERY
    assert (found["id"], found["state"]) == (str(delivery), "ENCRYPTED")
    assert found["created_at"].endswith("Z")
    assert type(found["fencing_token"]) is int


def test_a_timeline_has_rows_segments_and_fenced_writes(
    api: Api, owner: Connection[Any], delivery: UUID
) -> None:
    owner.execute(
        "INSERT INTO webhook_fenced_writes (delivery_id, worker_id, fencing_token, would_write)"
        " VALUES (%s, 'late', 1, 'DELIVERED')",
        (delivery,),
    )
    found = api.get(f"/deliveries/{delivery}/timeline", role="viewer")
    assert [row["state"] for row in found["rows"]] == ["RECEIVED", "ENCRYPTED"]
    assert all(row.keys() == TIMELINE_ROW for row in found["rows"])
    assert [segment["kind"] for segment in found["segments"]] == ["ingest", "waiting", "fenced"]
    assert all(segment.keys() == SEGMENT for segment in found["segments"])
    assert found["explanation"]["state"] == "It is encrypted and waits for its first attempt."
    assert "No worker has ever reported itself" in found["explanation"]["next"]
    assert [write["worker_id"] for write in found["fenced"]] == ["late"]


def test_an_open_wait_is_held_while_its_subscription_is_paused_and_not_removed(
    api: Api, owner: Connection[Any], delivery: UUID
) -> None:
    def waits_as() -> str:
        found = api.get(f"/deliveries/{delivery}/timeline", role="viewer")
        return str(found["segments"][-1]["kind"])

    assert waits_as() == "waiting"
    owner.execute("UPDATE webhook_subscriptions SET state = 'paused', paused_reason = 'moving'")
    assert waits_as() == "held"
    owner.execute("UPDATE webhook_subscriptions SET removed_at = fencepost_now()")
    assert waits_as() == "waiting"


def test_pages_of_a_list_meet_without_gap_or_overlap(
    api: Api, owner: Connection[Any], sub: UUID
) -> None:
    made = sorted((str(each) for each in make_deliveries(owner, sub, 25)), reverse=True)
    seen: list[list[str]] = []
    cursor = ""
    while True:
        page = api.get(f"/deliveries?sub={sub}&limit=10{cursor}", role="viewer")
        seen.append([row["id"] for row in page["data"]])
        assert (page["prev"] is None) == (len(seen) == 1)
        if page["next"] is None:
            break
        cursor = f"&after={page['next']}"
    assert [id_ for ids in seen for id_ in ids] == made
    assert [len(ids) for ids in seen] == [10, 10, 5]
    back = api.get(f"/deliveries?sub={sub}&limit=10&before={page['prev']}")
    assert [row["id"] for row in back["data"]] == seen[1]


def test_links_lead_through_the_list(api: Api, owner: Connection[Any], sub: UUID) -> None:
    make_deliveries(owner, sub, 3)
    first = api.call("GET", f"/deliveries?sub={sub}&type=invoice.*&limit=2", status=200)
    link = first.headers["Link"]
    assert link.endswith('; rel="next"')
    path = link[len("</api/v1") : link.index(">")]
    second = api.call("GET", path, status=200)
    document: Any = second.json
    assert len(document["data"]) == 1
    assert 'rel="prev"' in second.headers["Link"]
    assert document["next"] is None


def test_a_list_is_filtered_as_on_the_pages(api: Api, owner: Connection[Any], sub: UUID) -> None:
    dead, waiting = make_deliveries(owner, sub, 2)
    (sleeping,) = make_deliveries(owner, sub, due="fencepost_now() + interval '1 hour'")
    api.post(f"/deliveries/{dead}/discard")
    for query, expected in {
        f"state=dlq&sub={sub}": [dead],
        f"state=dlq&state=encrypted&sub={sub}": [sleeping, waiting, dead],
        f"state=encrypted&sub={sub}": [sleeping, waiting],
        f"phase=sleeping&sub={sub}": [sleeping],
        f"phase=waiting&sub={sub}": [waiting],
        f"phase=parked&sub={sub}": [dead],
        f"phase=inflight&sub={sub}": [],
        f"type=invoice.*&sub={sub}": [sleeping, waiting, dead],
        f"type=order.*&sub={sub}": [],
        f"id={waiting}": [waiting],
        f"sub={sub}&from=-1h&discarded=0": [sleeping, waiting],
        f"sub={sub}&to=2020-01-01T00:00:00Z": [],
        f"sub={uuid4()}": [],
    }.items():
        page = api.get(f"/deliveries?{query}", role="viewer")
        assert {row["id"] for row in page["data"]} == {str(each) for each in expected}, query


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("state=XXX", "state"),
        ("state=DLQ", "state"),
        ("state=", "state"),
        ("state[]=dlq", "state[]"),
        ("sub=7", "sub"),
        ("from=9999-99-99", "from"),
        ("from=2026-02-02T00:00:00Z&to=2026-02-01T00:00:00Z", "from"),
        ("from=1&from=2", "from"),
        ("q=%00", "q"),
        ("q=" + "x" * 300, "q"),
        ("err=cosmic_ray", "err"),
        ("code=99", "code"),
        ("min_attempts=-1", "min_attempts"),
        ("discarded=yes", "discarded"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("page=2", "page"),
        ("sort=id;drop+table", "sort"),
        ("after=nothing", "after"),
        ("before=AAAA", "before"),
    ],
)
def test_a_bad_parameter_is_named(api: Api, query: str, field: str) -> None:
    problem = api.get(f"/deliveries?{query}", status=422)
    assert problem["field"] == field


@pytest.mark.parametrize("q", ["%25", "_", "%5C", "'", "%C3%A9", "%F0%9F%98%80"])
def test_what_is_looked_for_means_itself(api: Api, q: str) -> None:
    assert api.get(f"/deliveries?q={q}")["data"] == []


def test_a_cursor_belongs_to_its_filter(api: Api, owner: Connection[Any], sub: UUID) -> None:
    make_deliveries(owner, sub, 2)
    cursor = api.get(f"/deliveries?sub={sub}&limit=1")["next"]
    assert api.get(f"/deliveries?limit=1&after={cursor}", status=422)["field"] == "after"
    turned = cursor[:-2] + ("AA" if cursor[-2:] != "AA" else "BB")
    problem = api.get(f"/deliveries?sub={sub}&after={turned}", status=422)
    assert problem["field"] == "after"


@pytest.mark.parametrize("is_dead", [False, True])
def test_the_oldest_come_first_where_that_is_asked_for(
    api: Api, owner: Connection[Any], sub: UUID, *, is_dead: bool
) -> None:
    ids = sorted(str(each) for each in make_deliveries(owner, sub, 5))
    query = f"/deliveries?sub={sub}&limit=2"
    if is_dead:
        for id_ in (ids := ids[::-1]):  # in the order in which they enter the DLQ
            api.post(f"/deliveries/{id_}/discard")
        query += "&state=dlq"
    found, after = [], ""
    while True:
        page = api.get(f"{query}&sort=oldest{after}")
        found += [each["id"] for each in page["data"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert found == ids
    assert api.get(f"{query}{after}", status=422)["field"] == "after"
    back = api.get(f"{query}&sort=oldest&before={page['prev']}")["data"]
    assert [each["id"] for each in back] == ids[2:4]


def test_every_filter_is_declared(api: Api) -> None:
    view: Any = api.client.application.view_functions["api.list_deliveries"]
    names = [parameter.name for parameter in view.query_parameters]
    assert names == [*NAMES, "sort", "limit", "after", "before"]


@pytest.mark.parametrize("path", ["", "/timeline"])
@pytest.mark.parametrize("id_", ["7", "not-a-uuid", "\u202e", str(UUID(int=7))])
def test_what_is_not_there_is_not_found(api: Api, id_: str, path: str) -> None:
    assert api.get(f"/deliveries/{id_}{path}", status=404)["code"] == "not_found"
    for act in ("replay", "discard"):
        assert api.post(f"/deliveries/{id_}/{act}", status=404)["code"] == "not_found"


def test_a_delivery_is_discarded_and_replayed(
    api: Api, owner: Connection[Any], delivery: UUID
) -> None:
    gone = api.post(f"/deliveries/{delivery}/discard", role="operator", json={"reason": "old"})
    assert gone["state"] == "DLQ"
    assert gone["discarded_at"] is not None
    back = api.post(f"/deliveries/{delivery}/replay", role="operator", json={"reason": "new"})
    assert back["state"] == "RETRIED"
    assert trail(owner, delivery) == [
        "RECEIVED", "ENCRYPTED", "DISCARDED", "DLQ", "REPLAYED", "RETRIED",
    ]  # fmt: skip
    assert actions_on(owner, delivery) == [
        ("token the operator", "delivery.discard", "done"),
        ("token the operator", "delivery.replay", "done"),
    ]


def test_a_refused_act_changes_nothing_and_is_logged(
    api: Api, owner: Connection[Any], delivery: UUID
) -> None:
    problem = api.post(f"/deliveries/{delivery}/replay", role="operator", status=409)
    assert (problem["code"], "ENCRYPTED" in problem["detail"]) == ("conflict", True)
    assert trail(owner, delivery) == ["RECEIVED", "ENCRYPTED"]
    row = owner.execute(
        "SELECT actor, action, outcome, affected, request_id, params ->> 'refused'"
        " FROM webhook_operator_actions WHERE target = %s",
        (str(delivery),),
    ).fetchall()
    assert row == [
        ("token the operator", "delivery.replay", "refused", 0, problem["request_id"],
         problem["detail"]),
    ]  # fmt: skip


def test_a_denied_act_is_logged(api: Api, owner: Connection[Any], delivery: UUID) -> None:
    problem = api.post(f"/deliveries/{delivery}/discard", role="viewer", status=403)
    assert problem["code"] == "forbidden"
    assert trail(owner, delivery) == ["RECEIVED", "ENCRYPTED"]
    ((actor, _, outcome),) = actions_on(owner, delivery)
    assert (actor, outcome) == ("token the viewer", "denied")


def test_a_bad_reason_changes_nothing(api: Api, owner: Connection[Any], delivery: UUID) -> None:
    for reason in ("x" * 301, "a\u0007b", 7):
        problem = api.post(f"/deliveries/{delivery}/discard", json={"reason": reason}, status=422)
        assert problem["field"] == "reason"
    assert api.post(f"/deliveries/{delivery}/discard", json={"why": "x"}, status=422)
    assert trail(owner, delivery) == ["RECEIVED", "ENCRYPTED"]


def test_a_list_costs_the_same_statements_for_any_number_of_rows(
    api: Api, owner: Connection[Any], sub: UUID, statements: Callable[[], int]
) -> None:
    make_deliveries(owner, sub, 50)
    api.get(f"/deliveries?sub={sub}&limit=1", role="viewer")
    before = statements()
    api.get(f"/deliveries?sub={sub}&limit=1", role="viewer")
    few = statements() - before
    api.get(f"/deliveries?sub={sub}&limit=50", role="viewer")
    assert statements() - before == 2 * few
