"""Who is at work, by page and by API."""

from __future__ import annotations

import re

from flask import Flask
from flask.testing import FlaskClient

from stage import Stage


def test_a_newcomer_is_told_how_to_start_one(viewer: FlaskClient) -> None:
    page = viewer.get("/workers").text
    assert "No worker reports itself" in page
    assert "fencepost worker" in page


def test_each_worker_shows_what_it_holds_and_how_it_is(viewer: FlaskClient, stage: Stage) -> None:
    first, *_ = stage.deliveries(stage.subscription().id, 2)
    for worker, age in (("alive", 1), ("late", 20), ("silent", 60)):
        stage.beat(worker)
        stage.conn.execute(
            "UPDATE webhook_workers SET beat_at = fencepost_now() - %s * interval '1 second'"
            " WHERE worker_id = %s",
            (age, worker),
        )
    stage.claim(first, "alive")
    rows = {
        part.split('"')[0]: part.split("</tr>")[0]
        for part in viewer.get("/workers").text.split('<tr id="row-')[1:]
    }
    assert {name: name in row.split("</td>")[0] for name, row in rows.items()} == {
        "alive": True,
        "late": True,
        "silent": True,
    }
    assert 'state=leased&amp;state=attempted">1</a>' in rows["alive"]
    assert "<a href" not in rows["late"].split('data-label="Leases"')[1].split("</td>")[0]


_NONE = "\N{EN DASH}"


def test_it_says_how_much_a_worker_gets_done(viewer: FlaskClient, stage: Stage) -> None:
    for worker, age in (("busy", 1), ("idle", 1), ("older-release", 1), ("gone", 600)):
        stage.beat(worker)
        stage.conn.execute(
            "UPDATE webhook_workers SET beat_at = fencepost_now() - %s * interval '1 second'"
            " WHERE worker_id = %s",
            (age, worker),
        )
    stage.conn.execute(
        "UPDATE webhook_workers SET attempts_per_minute = 1482.4, p95_ms = 212"
        " WHERE worker_id IN ('busy', 'gone')"
    )
    stage.conn.execute(
        "UPDATE webhook_workers SET attempts_per_minute = 0 WHERE worker_id = 'idle'"
    )
    page = viewer.get("/workers").text

    def shown(worker: str) -> list[str]:
        row = page.split(f'<tr id="row-{worker}"')[1].split("</tr>")[0]
        cells = [row.split(f'data-label="{name}"')[1] for name in ("Attempts a minute", "p95")]
        return [re.sub("<[^>]*>", "", cell.split("</td>")[0].partition(">")[2]) for cell in cells]

    assert shown("busy") == ["1,482", "212 ms"]
    assert shown("idle") == ["0", _NONE]
    # What a worker said before it fell silent is not what it does now.
    assert shown("older-release") == shown("gone") == [_NONE, _NONE]


def test_a_lease_of_a_worker_that_nobody_knows_is_shown(viewer: FlaskClient, stage: Stage) -> None:
    (only,) = stage.deliveries(stage.subscription().id)
    stage.claim(only, "worker-gone")
    page = viewer.get("/workers").text
    assert 'id="row-worker-gone"' in page
    assert "silent" in page


def test_refused_writes_are_listed(app: Flask, viewer: FlaskClient, stage: Stage) -> None:
    (only,) = stage.deliveries(stage.subscription().id)
    stage.beat("worker-a")
    late = stage.claim(only, "worker-a")
    stage.attempt(late)
    stage.expire(only)
    assert not stage.settle(late, 200)
    page = viewer.get("/workers").text
    assert f'href="/deliveries/{only}"' in page
    assert "DELIVERED" in page
    headers = {"Authorization": f"Bearer {stage.token('viewer')}"}
    found = app.test_client().get("/api/v1/workers", headers=headers).json
    assert found is not None
    (worker,) = found["data"]
    assert (worker["health"], worker["leases"], worker["fenced_last_hour"]) == ("alive", 0, 1)
    (write,) = found["fenced"]
    assert write["delivery_id"] == str(only)
    assert write["would_write"] == "DELIVERED"


def test_the_region_is_sent_again_only_when_it_changed(viewer: FlaskClient, stage: Stage) -> None:
    stage.beat()
    first = viewer.get("/_f/workers")
    again = viewer.get("/_f/workers", headers={"If-None-Match": first.headers["ETag"]})
    assert (first.status_code, again.status_code) == (200, 304)
    stage.beat()
    after = viewer.get("/_f/workers", headers={"If-None-Match": first.headers["ETag"]})
    assert after.status_code == 200
