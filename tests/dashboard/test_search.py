"""Search leads to the thing, or says what was looked at."""

from __future__ import annotations

from uuid import UUID

import pytest
from flask.testing import FlaskClient

from stage import Stage


@pytest.fixture
def event(stage: Stage) -> UUID:
    sub = stage.subscription("orders -> acme")
    stage.deliveries(sub.id)
    found: UUID = stage.value("SELECT event_id FROM webhook_deliveries")
    return found


def key(stage: Stage, text: str, event_id: UUID) -> None:
    stage.conn.execute(
        "INSERT INTO webhook_idempotency_keys (key, event_id) VALUES (%s, %s)", (text, event_id)
    )


def found(client: FlaskClient, text: str) -> str | None:
    answer = client.get("/search", query_string={"q": text})
    assert answer.status_code in {200, 303}, answer.text
    return answer.headers.get("Location")


def test_an_id_leads_to_its_page(viewer: FlaskClient, stage: Stage, event: UUID) -> None:
    delivery = stage.value("SELECT id FROM webhook_deliveries")
    sub = stage.value("SELECT id FROM webhook_subscriptions")
    assert found(viewer, f" {delivery}\n") == f"/deliveries/{delivery}"
    assert found(viewer, str(event).upper()) == f"/events/{event}"
    assert found(viewer, str(sub)) == f"/subscriptions/{sub}"
    assert found(viewer, str(event)[:20]) == f"/events/{event}"
    assert (
        found(viewer, f"https://hooks.test/deliveries/{delivery}?x=1") == f"/deliveries/{delivery}"
    )


def test_a_key_leads_to_its_event_in_whole_and_by_its_beginning(
    viewer: FlaskClient, stage: Stage, event: UUID
) -> None:
    key(stage, "ord_88213", event)
    assert found(viewer, "ord_88213") == f"/events/{event}"
    assert found(viewer, "ord_88") == f"/events/{event}"
    assert found(viewer, "ord%") is None
    assert found(viewer, "or") is None
    assert found(viewer, "ordX88") is None  # the underscore is no wildcard


def test_the_whole_key_comes_before_those_that_go_on(
    viewer: FlaskClient, stage: Stage, event: UUID
) -> None:
    for text in ("inv-1", "inv-10", "inv-11~"):
        key(stage, text, event)
    assert found(viewer, "inv-1") == f"/events/{event}"
    page = viewer.get("/search?q=inv").text
    assert "3 things begin with" in page
    assert page.index("inv-1<") < page.index("inv-10<") < page.index("inv-11~<")


def test_names_of_subscriptions_and_workers(viewer: FlaskClient, stage: Stage) -> None:
    sub = stage.subscription("orders -> acme")
    stage.beat("node-a-1f")
    assert found(viewer, "ORDERS") == f"/subscriptions/{sub.id}"
    assert found(viewer, "node-a") == "/deliveries?worker=node-a-1f"


@pytest.mark.parametrize("text", ["", "ord_88213x", "\0", "%", "<img src=x>", "ключ", "'"])
def test_what_is_nothing_says_what_was_looked_at(viewer: FlaskClient, text: str) -> None:
    answer = viewer.get("/search", query_string={"q": text})
    assert answer.status_code == 200
    assert "Payloads are not searched" in answer.text
    assert "<img src=x>" not in answer.text
