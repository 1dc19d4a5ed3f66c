"""Counts are exact while that is cheap; beyond it they say what they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask

from dashboard import tallies
from dashboard.database import connection
from dashboard.tallies import Tally, tally, tally_of
from fencepost.states import State
from stage import Stage


@pytest.fixture
def context(app: Flask) -> Iterator[None]:
    with app.app_context():
        yield


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (Tally(1234), "1,234"),
        (Tally(100_000, is_more=True), "100,000+"),
        (Tally(9_800_000, is_about=True), "about 9,800,000"),
    ],
)
def test_a_number_says_how_it_is_meant(given: Tally, text: str) -> None:
    assert str(given) == text


@pytest.mark.usefixtures("context")
def test_small_tables_are_counted_whole(stage: Stage) -> None:
    sub = stage.subscription()
    stage.deliveries(sub.id, 3)
    dead, _ = stage.dead(sub.id, 2)
    stage.discard(dead)
    found = {state: each.number for state, each in tally(connection()).items() if each.number}
    assert found == {State.ENCRYPTED: 3, State.DLQ: 1}
    of_one = {s: e.number for s, e in tally_of(sub.id).items() if e.number}
    assert of_one == found


@pytest.mark.usefixtures("context")
def test_large_tables_are_counted_up_to_a_limit(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies, "SMALL", 0)
    monkeypatch.setattr(tallies, "CAP", 4)
    sub = stage.subscription()
    stage.dead(sub.id, 6)
    for delivery in stage.deliveries(sub.id, 5):
        stage.send(delivery, 200)
    stage.deliveries(sub.id)
    stage.conn.execute("ANALYZE webhook_deliveries")
    found = tally(connection())
    assert str(found[State.ENCRYPTED]) == "1"
    assert str(found[State.DLQ]) == "about 6"
    assert str(found[State.DELIVERED]) == "about 5"
    assert str(tally_of(sub.id)[State.DLQ]) == "4+"
