"""What deliveries are doing now: found by the filter, told row by row, and the same both times."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from fencepost.filters import DeliveryFilter
from fencepost.keyring import Keyring
from fencepost.phases import phase_of
from fencepost.states import Phase
from fencepost.store.conditions import read_clock
from fencepost.store.deliveries import get_delivery, list_deliveries, refresh_deliveries
from stage import Stage


@pytest.fixture
def stage(superuser_url: str, endpoint_keyring: Keyring) -> Iterator[Stage]:
    found = Stage(superuser_url, endpoint_keyring)
    yield found
    found.close()


@pytest.fixture
def doing(stage: Stage) -> dict[str, UUID]:
    """One delivery for everything that one can be doing."""
    sub = stage.subscription().id
    (waiting, sleeping, leased, sent, delivered), (given_up, dead) = (
        stage.deliveries(sub, 5),
        stage.dead(sub, 2),
    )
    stage.send(sleeping, 503)
    stage.claim(leased)
    stage.attempt(stage.claim(sent))
    stage.send(delivered, 200)
    stage.discard(given_up)
    return {
        "waiting": waiting, "sleeping": sleeping, "leased": leased, "sent": sent,
        "delivered": delivered, "given up": given_up, "dead": dead,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "names"),
    [
        (Phase.WAITING, {"waiting"}),
        (Phase.SLEEPING, {"sleeping"}),
        (Phase.INFLIGHT, {"leased", "sent"}),
        (Phase.PARKED, {"dead", "given up"}),
    ],
)
def test_a_phase_is_found(
    stage: Stage, doing: dict[str, UUID], phase: Phase, names: set[str]
) -> None:
    found = list_deliveries(stage.conn, DeliveryFilter(phase=phase)).rows
    assert {row.id for row in found} == {doing[name] for name in names}
    now = read_clock(stage.conn)
    told = {
        name: phase_of(get_delivery(stage.conn, id_), now) is phase for name, id_ in doing.items()
    }
    assert {name for name, is_so in told.items() if is_so} == names


def test_sleep_ends_when_the_next_attempt_is_due(stage: Stage, doing: dict[str, UUID]) -> None:
    stage.conn.execute(
        "UPDATE webhook_deliveries SET next_attempt_at = fencepost_now() WHERE id = %s",
        (doing["sleeping"],),
    )
    assert not list_deliveries(stage.conn, DeliveryFilter(phase=Phase.SLEEPING)).rows
    waiting = list_deliveries(stage.conn, DeliveryFilter(phase=Phase.WAITING)).rows
    assert {row.id for row in waiting} == {doing["waiting"], doing["sleeping"]}


def test_what_was_fenced_out_is_found(stage: Stage) -> None:
    fenced, other = stage.deliveries(stage.subscription().id, 2)
    lease = stage.claim(fenced)
    stage.attempt(lease)
    stage.expire(fenced)
    assert not stage.settle(lease, 200)
    with_one = list_deliveries(stage.conn, DeliveryFilter(fenced=True)).rows
    without = list_deliveries(stage.conn, DeliveryFilter(fenced=False)).rows
    assert ([row.id for row in with_one], [row.id for row in without]) == ([fenced], [other])


def test_rows_are_refreshed_in_their_order_whatever_became_of_them(
    stage: Stage, doing: dict[str, UUID]
) -> None:
    shown = [doing[name] for name in ("dead", "waiting", "sleeping")]
    scope = DeliveryFilter(phase=Phase.WAITING)
    found = refresh_deliveries(stage.conn, scope, [*shown, UUID(int=7)])
    assert [(row.id, matches) for row, matches in found] == [
        (doing["dead"], False), (doing["waiting"], True), (doing["sleeping"], False)
    ]  # fmt: skip
