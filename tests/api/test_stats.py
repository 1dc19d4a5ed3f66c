"""The figures of a window over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import Connection

from api_client import Api
from factories import make_deliveries, make_subscription
from rolling import roll


def test_the_figures_are_those_of_the_window(api: Api, owner: Connection[Any]) -> None:
    sub = make_subscription(owner)
    dead, *_ = make_deliveries(owner, sub, 3)
    api.post(f"/deliveries/{dead}/discard")
    roll(owner)
    figures = api.get(f"/stats?sub={sub}", role="viewer")
    assert (figures["received"], figures["states"]["ENCRYPTED"]) == (3, 2)
    assert (figures["states"]["DLQ"], figures["discarded"]) == (1, 1)
    assert figures["segments"]["ingest"]["count"] == 3
    assert {"lease_expiries", "fenced_writes", "dead_lettered", "retry_rate"} <= figures.keys()
    assert api.get(f"/stats?sub={sub}&to=-1h")["received"] == 0
    assert api.get(f"/stats?sub={uuid4()}")["received"] == 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("sub=x", "sub"),
        (f"sub={UUID(int=7)}&sub={UUID(int=8)}", "sub"),
        ("from=yesterday", "from"),
        ("from=-1h&to=-2h", "from"),
        ("to=2026-02-30", "to"),
        ("state=dlq", "state"),
    ],
)
def test_a_bad_parameter_is_named(api: Api, query: str, field: str) -> None:
    assert api.get(f"/stats?{query}", status=422)["field"] == field
