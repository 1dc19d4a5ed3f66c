"""Bulk replays over HTTP: exact counts first, then start, pause, resume, cancel."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from api_client import Api
from factories import make_deliveries, make_subscription
from fencepost.store import requeue
from fencepost.store.replays import get_replay


@pytest.fixture
def sub(owner: Connection[Any]) -> UUID:
    return make_subscription(owner)


@pytest.fixture
def dead(owner: Connection[Any], sub: UUID) -> list[UUID]:
    """Five dead letters of one subscription."""
    made = make_deliveries(owner, sub, 5)
    owner.execute(
        """
        WITH moved AS (
            UPDATE webhook_deliveries
               SET current_state = 'DLQ', seq = seq + 2, dead_at = fencepost_now(),
                   dead_reason = 'test', next_attempt_at = NULL
             WHERE id = ANY (%s) RETURNING id, seq)
        INSERT INTO webhook_delivery_attempts (delivery_id, seq, state)
        SELECT id, seq - 1, 'FAILED' FROM moved UNION ALL SELECT id, seq, 'DLQ' FROM moved
        """,
        (made,),
    )
    return made


def draft(api: Api, sub: UUID, **more: Any) -> Any:
    body = {"filter": {"sub": str(sub), "state": ["dlq"]}, "reason": "mended", **more}
    return api.post("/replays", role="operator", json=body, status=201)


def states(owner: Connection[Any], sub: UUID) -> dict[str, int]:
    return dict(
        owner.execute(
            "SELECT current_state, count(*) FROM webhook_deliveries"
            " WHERE subscription_id = %s GROUP BY 1",
            (sub,),
        ).fetchall()
    )


def actions_on(owner: Connection[Any], target: str) -> list[tuple[Any, ...]]:
    return owner.execute(
        "SELECT action, outcome FROM webhook_operator_actions WHERE target = %s ORDER BY id",
        (target,),
    ).fetchall()


def test_a_draft_counts_exactly_and_touches_nothing(
    api: Api, owner: Connection[Any], sub: UUID, dead: list[UUID]
) -> None:
    api.post(f"/deliveries/{dead[0]}/discard")
    made = draft(api, sub)
    assert (made["state"], made["matched"], made["eligible"]) == ("DRAFT", 5, 4)
    assert states(owner, sub) == {"DLQ": 5}
    assert api.get(f"/replays/{made['id']}", role="viewer")["eligible"] == 4
    assert made["id"] not in {row["id"] for row in api.get("/replays")["data"]}


def test_a_replay_runs_from_draft_to_done(
    api: Api,
    owner: Connection[Any],
    worker_connection: Connection[Any],
    sub: UUID,
    dead: list[UUID],
) -> None:
    path = f"/replays/{draft(api, sub)['id']}"
    started = api.post(f"{path}/start", role="operator", json={"confirm": 5})
    assert (started["state"], started["remaining"]) == ("RUNNING", 5)
    assert api.post(f"{path}/start", role="operator", json={"confirm": 5})["state"] == "RUNNING"
    assert api.post(f"{path}/pause", role="operator")["state"] == "PAUSED"
    assert api.post(f"{path}/resume", role="operator", json={})["state"] == "RUNNING"
    run_to_the_end(worker_connection, UUID(started["id"]))
    done = api.get(path, role="viewer")
    assert (done["state"], done["requeued"], done["skipped"]) == ("DONE", 5, 0)
    assert (done["delivered"], done["failed"], done["remaining"]) == (0, 0, 0)
    assert states(owner, sub) == {"RETRIED": 5}
    assert api.post(f"{path}/cancel", role="operator", status=409)["code"] == "conflict"
    assert [row["id"] for row in api.get("/replays?limit=1")["data"]] == [done["id"]]
    assert actions_on(owner, done["id"]) == [
        ("replay.draft", "done"),
        ("replay.start", "done"),
        ("replay.pause", "done"),
        ("replay.resume", "done"),
        ("replay.cancel", "refused"),
    ]
    page = api.get(f"/deliveries?replay={done['id']}")
    assert {row["id"] for row in page["data"]} == {str(each) for each in dead}


def run_to_the_end(conn: Connection[Any], replay_id: UUID) -> None:
    """Do what a worker does with a running replay."""
    for _ in range(10):
        with conn.transaction():
            replay = get_replay(conn, replay_id)
            if replay.state != "RUNNING":
                return
            requeue.requeue_batch(conn, replay, 100)
    pytest.fail("the replay does not end")


def test_a_draft_tells_reasons_parts_and_order(api: Api, sub: UUID, dead: list[UUID]) -> None:
    api.post(f"/deliveries/{dead[0]}/discard")
    made = draft(api, sub, order="newest_first", rate_per_second=2)
    assert (made["order"], made["not_eligible"]) == ("newest_first", {"discarded": 1})
    assert made["subscriptions"] == [{"subscription_id": str(sub), "eligible": 4, "requeued": 0}]
    path = f"/replays/{made['id']}"
    assert api.post(f"{path}/start", role="operator")["order"] == "newest_first"
    other = {"order": "oldest_first"}
    assert api.post(f"{path}/start", role="operator", json=other, status=409)["code"] == "conflict"
    shown = api.get(path, role="viewer")
    assert (shown["in_flight"], shown["paused_reason"], shown["first_failures"]) == (0, None, [])


def test_a_cancelled_replay_stays_so(api: Api, sub: UUID, dead: list[UUID]) -> None:
    assert dead
    path = f"/replays/{draft(api, sub)['id']}"
    assert api.post(f"{path}/cancel", role="operator")["state"] == "CANCELLED"
    assert api.post(f"{path}/cancel", role="operator")["state"] == "CANCELLED"
    for act in ("start", "pause", "resume"):
        assert api.post(f"{path}/{act}", role="operator", status=409)["code"] == "conflict"


def test_a_start_needs_a_reason_and_the_right_count(api: Api, sub: UUID, dead: list[UUID]) -> None:
    assert dead
    path = f"/replays/{draft(api, sub, reason=None)['id']}/start"
    assert api.post(path, role="operator", status=422)["field"] == "reason"
    wrong = {"reason": "mended", "confirm": 4}
    assert api.post(path, role="operator", json=wrong, status=422)["field"] == "confirm"
    assert api.post(path, role="operator", json=wrong | {"confirm": 5})["reason"] == "mended"


def test_an_expired_draft_is_not_started(
    api: Api, owner: Connection[Any], sub: UUID, dead: list[UUID]
) -> None:
    assert dead
    made = draft(api, sub)
    owner.execute(
        "UPDATE webhook_replays SET expires_at = fencepost_now() - interval '1 s' WHERE id = %s",
        (made["id"],),
    )
    problem = api.post(f"/replays/{made['id']}/start", role="operator", status=409)
    assert "expired" in problem["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "filter"),
        ({"filter": "everything"}, "filter"),
        ({"filter": {"stat": "dlq"}}, "stat"),
        ({"filter": {"state": "gone"}}, "state"),
        ({"filter": {"sub": None}}, "sub"),
        ({"filter": {"sub": {"id": 1}}}, "sub"),
        ({"filter": {"limit": "5"}}, "limit"),
        ({"filter": {"q": ""}}, "q"),
        ({"filter": {}, "reason": "x" * 301}, "reason"),
        ({"filter": {}, "rate_per_second": 0}, "rate_per_second"),
        ({"filter": {}, "rate_per_second": -1}, "rate_per_second"),
        ({"filter": {}, "rate_per_second": "fast"}, "rate_per_second"),
        ({"filter": {}, "rate_per_second": 10**17}, "rate_per_second"),
        ({"filter": {}, "order": "random"}, "order"),
        ({"filter": {}, "confirm": 1}, "confirm"),
        ({"ids": []}, "ids"),
    ],
)
def test_a_bad_draft_names_its_field(api: Api, body: Any, field: str) -> None:
    assert api.post("/replays", json=body, status=422)["field"] == field


@pytest.mark.parametrize("act", ["start", "pause", "resume", "cancel"])
@pytest.mark.parametrize("id_", ["7", str(UUID(int=7))])
def test_what_is_not_there_is_not_found(api: Api, id_: str, act: str) -> None:
    assert api.post(f"/replays/{id_}/{act}", status=404)["code"] == "not_found"
    assert api.get(f"/replays/{id_}", status=404)["code"] == "not_found"
