"""The examples for receivers run as they stand, and answer as they should."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import psycopg
import pytest
import requests

from example_receivers import COMMANDS, FOLDER, ExampleReceiver
from fencepost import signing

pytestmark = pytest.mark.postgres

SECRET = signing.generate_secret()
PAID = {"type": "invoice.paid", "invoice": "inv-1 é", "amount": 1999}


@pytest.fixture(params=COMMANDS)
def example(
    request: pytest.FixtureRequest, receivers_url: str, tmp_path: Path
) -> Iterator[ExampleReceiver]:
    with ExampleReceiver(request.param, receivers_url, tmp_path / "example.log") as example:
        example.secrets += [signing.generate_secret(), SECRET]
        example.start()
        yield example


def send(
    example: ExampleReceiver,
    event_id: str,
    *,
    token: int = 1,
    secret: str = SECRET,
    event: object = PAID,
    changed: Mapping[str, str | None] = MappingProxyType({}),
) -> tuple[int, str]:
    """Send a request as a worker does, headers changed or left out; give the answer."""
    body, now = json.dumps(event).encode(), int(time.time())
    signature = signing.sign(
        "standard", secrets=[secret], message_id=event_id, timestamp=now, body=body
    )
    headers: dict[str, str | None] = {
        "Content-Type": "application/json",
        "webhook-id": event_id,
        "webhook-timestamp": str(now),
        "Fencepost-Delivery": f"delivery-of-{event_id}",
        "Fencepost-Token": str(token),
        **dict([signature]),
        **changed,
    }
    answer = requests.post(example.url, body, headers=headers, timeout=30)
    return answer.status_code, answer.text


def test_it_acts_once_and_says_why_it_does_not(
    example: ExampleReceiver, receivers_url: str
) -> None:
    assert send(example, "event-1", token=5) == (204, "")
    assert send(example, "event-1", token=5) == (204, "")
    assert send(example, "event-1", token=6) == (204, "")
    stale = "delivery delivery-of-event-1 was here with a higher token than 5"
    assert send(example, "event-1", token=5) == (409, stale)
    assert send(example, "event-2", event={"type": "order.paid"}) == (204, "")
    status, why = send(example, "event-3", secret=signing.generate_secret())
    assert (status, why.split(":")[0]) == (401, "no signature matches")
    missing = "there is no header webhook-signature"
    assert send(example, "event-3", changed={"webhook-signature": None}) == (400, missing)
    # Its effect fails: nothing is recorded, and the next request acts.
    assert send(example, "event-3", event={**PAID, "amount": "much"})[0] == 500
    assert send(example, "event-3") == (204, "")
    with psycopg.connect(receivers_url) as conn:
        paid = conn.execute("SELECT invoice, amount FROM payments").fetchall()
        seen = conn.execute("SELECT webhook_id, requests FROM webhook_inbox ORDER BY 1").fetchall()
    assert paid == [("inv-1 é", 1999), ("inv-1 é", 1999)]
    assert seen == [("event-1", 3), ("event-2", 1), ("event-3", 1)]


def test_each_is_short_enough_to_be_read() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {
        *(f"{name}_receiver" for name in COMMANDS),
        "tables",
    }
    for path in FOLDER.glob("*.py"):
        assert len(path.read_text().splitlines()) < 60
