from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import Connection

from factories import make_deliveries, make_subscription, pass_time
from fencepost.cursors import Position
from fencepost.errors import NotFoundError
from fencepost.filters import DeliveryFilter
from fencepost.keyring import Keyring
from fencepost.model import Delivery, ErrorClass
from fencepost.states import State
from fencepost.store import deliveries
from fencepost.store.conditions import read_clock
from fencepost.store.deliveries import count_capped, get_delivery, list_deliveries
from journeys import attempt, bury, deliver, fail, lease


@pytest.fixture
def db(superuser: Connection[Any]) -> Iterator[Connection[Any]]:
    with superuser.transaction(force_rollback=True):
        yield superuser


@pytest.fixture
def all_states(db: Connection[Any]) -> dict[State, UUID]:
    """One delivery in each state that lasts."""
    sub = make_subscription(db)
    found: dict[State, UUID] = {}
    moves: dict[State, Callable[..., object]] = {
        State.DELIVERED: deliver, State.RETRIED: fail, State.DLQ: bury,
        State.LEASED: lease, State.ATTEMPTED: attempt,
    }  # fmt: skip
    for state, move in moves.items():
        made = make_deliveries(db, sub)
        move(db, made)
        found[state] = made[0]
    (found[State.ENCRYPTED],) = make_deliveries(db, sub)
    return found


def read(**params: str | list[str]) -> DeliveryFilter:
    lists = {name.rstrip("_"): [v] if isinstance(v, str) else v for name, v in params.items()}
    return DeliveryFilter.from_params(lists)


def ids(db: Connection[Any], scope: DeliveryFilter) -> set[UUID]:
    return {row.id for row in list_deliveries(db, scope, limit=200).rows}


def walk(
    db: Connection[Any], scope: DeliveryFilter, limit: int, *, back: bool = False
) -> list[list[Delivery]]:
    """Go through a list page by page, from its start, or back from its end."""
    pages, place = [], None
    if back:
        *_, last = walk(db, scope, limit)
        place = Position(last[-1].id, last[-1].dead_at if scope.is_by_entry else None)
    while True:
        after, before = (None, place) if back else (place, None)
        page = list_deliveries(db, scope, limit=limit, after=after, before=before)
        pages.append(list(page.rows))
        place = page.prev if back else page.next
        if place is None:
            return pages


def test_the_last_page_is_found_from_the_end(db: Connection[Any]) -> None:
    bury(db, dead := make_deliveries(db, make_subscription(db), 5))
    made = [*dead, *make_deliveries(db, make_subscription(db), 7)]
    for scope, oldest in (
        (DeliveryFilter(), sorted(made)[:3]),
        (DeliveryFilter(state=(State.DLQ,)), sorted(dead)[:3]),
    ):
        last = list_deliveries(db, scope, limit=3, is_from_end=True)
        assert sorted(row.id for row in last.rows) == oldest
        assert last.next is None
        before = list_deliveries(db, scope, limit=3, before=last.prev)
        assert not {row.id for row in before.rows} & {row.id for row in last.rows}
    few = list_deliveries(db, DeliveryFilter(state=(State.DLQ,)), limit=5, is_from_end=True)
    assert (len(few.rows), few.next, few.prev) == (5, None, None)


def test_a_list_is_newest_first_and_has_ends(db: Connection[Any]) -> None:
    made = make_deliveries(db, make_subscription(db), 7)
    newest = sorted(made, reverse=True)
    first = list_deliveries(db, DeliveryFilter(), limit=3)
    assert [row.id for row in first.rows] == newest[:3]
    assert first.prev is None
    second = list_deliveries(db, DeliveryFilter(), limit=3, after=first.next)
    assert [row.id for row in second.rows] == newest[3:6]
    last = list_deliveries(db, DeliveryFilter(), limit=3, after=second.next)
    assert [row.id for row in last.rows] == newest[6:]
    assert last.next is None
    back = list_deliveries(db, DeliveryFilter(), limit=3, before=last.prev)
    assert back.rows == second.rows
    start = list_deliveries(db, DeliveryFilter(), limit=3, before=back.prev)
    assert start.rows == first.rows
    assert start.prev is None
    assert start.next is not None


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("params", [{}, {"state": "dlq"}, {"state": ["dlq", "retried"]}])
def test_pages_of_any_size_hold_every_row_once_in_both_directions(
    db: Connection[Any], params: dict[str, str | list[str]], limit: int
) -> None:
    one, other = make_subscription(db), make_subscription(db)
    for sub in (one, other):
        bury(db, make_deliveries(db, sub, 5))
        fail(db, make_deliveries(db, sub, 4))
        bury(db, make_deliveries(db, sub, 1))
    for scope in (read(**params), read(**params, sub=[str(one), str(other)])):
        forth = [row.id for page in walk(db, scope, limit) for row in page]
        expected = ids(db, scope)
        assert len(forth) == len(set(forth)) == len(expected)
        back = [row.id for page in walk(db, scope, limit, back=True) for row in reversed(page)]
        assert list(reversed(back)) == forth[:-1]


def test_rows_that_arrive_meanwhile_do_not_shift_a_page(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    made = sorted(make_deliveries(db, sub, 6), reverse=True)
    first = list_deliveries(db, DeliveryFilter(), limit=3)
    make_deliveries(db, sub, 2)
    second = list_deliveries(db, DeliveryFilter(), limit=3, after=first.next)
    assert [row.id for row in second.rows] == made[3:]


def test_dead_letters_are_listed_by_the_moment_of_entry(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    (early,) = make_deliveries(db, sub)
    fail(db, [early], delay=0)
    (late,) = make_deliveries(db, sub, due="fencepost_now() + interval '10 seconds'")
    bury(db, [early])
    pass_time(db, 20)
    bury(db, [late])
    (third,) = make_deliveries(db, sub)
    bury(db, [third])
    page = list_deliveries(db, read(state="dlq"))
    assert [row.id for row in page.rows] == [third, late, early]
    moment = page.rows[1].dead_at
    assert moment is not None
    assert ids(db, read(state="dlq", from_=moment.isoformat())) == {third, late}
    assert ids(db, read(state="dlq", to=moment.isoformat())) == {early}


def test_each_state_is_found_by_its_name(
    db: Connection[Any], all_states: dict[State, UUID]
) -> None:
    for state, delivery in all_states.items():
        assert ids(db, read(state=state.lower())) == {delivery}
        assert get_delivery(db, delivery).current_state is state
    assert ids(db, read(state=["leased", "attempted"])) == {
        all_states[State.LEASED],
        all_states[State.ATTEMPTED],
    }


def test_every_other_condition_narrows_the_list(
    db: Connection[Any], all_states: dict[State, UUID]
) -> None:
    dead, delivered = all_states[State.DLQ], all_states[State.DELIVERED]
    retried = all_states[State.RETRIED]
    db.execute(
        "UPDATE webhook_deliveries SET replay_id = %s WHERE id = %s", (uuid := uuid4(), dead)
    )
    db.execute(
        "INSERT INTO webhook_idempotency_keys (key, event_id) VALUES ('ord_1', %s)",
        (get_delivery(db, dead).event_id,),
    )
    everything = set(all_states.values())
    attempted = everything - {all_states[State.ENCRYPTED], all_states[State.LEASED]}
    expected = {
        "id": ([str(dead), str(retried)], {dead, retried}),
        "type": (["invoice.*"], everything),
        "code": (["404"], {dead}),
        "err": (["http_5xx"], {retried}),
        "min_attempts": (["1"], attempted),
        "max_attempts": (["0"], everything - attempted),
        "replay": ([str(uuid)], {dead}),
        "worker": (["a-1"], everything - {all_states[State.ENCRYPTED]}),
        "discarded": (["1"], set()),
        "q": (["ord_1"], {dead}),
    }
    for name, (values, found) in expected.items():
        assert ids(db, read(**{name: values})) == found, name
    assert ids(db, read(type="invoice.p_id")) == set()
    assert ids(db, read(type=["crm.*", "invoice.paid"])) == everything
    assert ids(db, read(code=["200", "5xx"])) == {delivered, retried}
    assert ids(db, read(code="none")) == everything - {dead, delivered, retried}
    assert ids(db, read(discarded="0")) == everything
    assert ids(db, read(worker="nobody")) == set()
    assert ids(db, read(state="dlq", code="503")) == set()


def test_q_finds_ids_by_their_beginning_and_keys_as_a_whole(
    db: Connection[Any], all_states: dict[State, UUID]
) -> None:
    delivery = get_delivery(db, all_states[State.DLQ])
    assert ids(db, read(q=str(delivery.id))) == {delivery.id}
    assert ids(db, read(q=str(delivery.event_id)[:13])) == {delivery.id}
    assert ids(db, read(q=delivery.event_id.hex.upper())) == {delivery.id}
    for text in ("%", "_", "\\", "ord", "'", "ffffffff", str(uuid4())):
        assert ids(db, read(q=text)) == set(), text


def test_a_range_is_half_open_and_exact_to_the_microsecond(db: Connection[Any]) -> None:
    (made,) = make_deliveries(db, make_subscription(db))
    at = get_delivery(db, made).created_at
    tick = timedelta(microseconds=1)

    def between(since: datetime, until: datetime) -> set[UUID]:
        return ids(db, DeliveryFilter(since=since, until=until))

    assert between(at, at + tick) == {made}
    assert between(at - tick, at) == set()
    assert between(at + tick, at + timedelta(days=1)) == set()


def test_relative_bounds_count_back_from_the_databases_clock(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    (old,) = make_deliveries(db, sub)
    pass_time(db, 3600)
    (new,) = make_deliveries(db, sub)
    assert ids(db, read(from_="-30m")) == {new}
    assert ids(db, read(to="-30m")) == {old}
    assert ids(db, read(from_="-2h")) == {old, new}


def test_counts_are_exact_by_state_and_capped_by_filter(
    db: Connection[Any], all_states: dict[State, UUID]
) -> None:
    make_deliveries(db, other := make_subscription(db), 3)
    counts = deliveries.count_by_state(db)
    assert counts == {**dict.fromkeys(all_states, 1), State.ENCRYPTED: 4, State.RECEIVED: 0}
    assert deliveries.count_by_state(db, other)[State.ENCRYPTED] == 3
    assert sum(deliveries.count_by_state(db, other).values()) == 3
    assert count_capped(db, DeliveryFilter()) == 9
    assert count_capped(db, DeliveryFilter(), cap=5) == 6
    assert count_capped(db, read(state="encrypted"), cap=4) == 4


def test_a_trail_is_read_in_order_with_what_each_row_knows(db: Connection[Any]) -> None:
    made = make_deliveries(db, make_subscription(db))
    fail(db, made, delay=15)
    rows = deliveries.read_trail(db, made[0])
    assert [row.state for row in rows] == [
        "RECEIVED", "ENCRYPTED", "LEASED", "ATTEMPTED", "FAILED", "RETRIED",
    ]  # fmt: skip
    failed = rows[4]
    assert (failed.http_status_code, failed.latency_ms, failed.error_message) == (
        503,
        105,
        "HTTP 503",
    )
    assert failed.detail is not None
    assert failed.detail["class"] == ErrorClass.HTTP_5XX
    assert deliveries.read_trail(db, uuid4()) == []


def test_refused_late_writes_are_read_beside_the_trail(db: Connection[Any]) -> None:
    (made,) = make_deliveries(db, make_subscription(db))
    db.execute(
        "INSERT INTO webhook_fenced_writes (delivery_id, worker_id, fencing_token, would_write)"
        " VALUES (%s, 'a-1', 41, 'DELIVERED')",
        (made,),
    )
    (write,) = deliveries.read_fenced(db, made)
    assert (write.worker_id, write.fencing_token, write.would_write) == ("a-1", 41, "DELIVERED")


def test_a_kept_answer_is_opened_for_its_own_attempt_only(
    db: Connection[Any], endpoint_keyring: Keyring
) -> None:
    (made,) = make_deliveries(db, make_subscription(db))
    kept = {"status": 503, "body": "b29wcw=="}
    sealed = endpoint_keyring.seal(json.dumps(kept).encode(), context=("response", str(made), "1"))
    db.execute(
        "INSERT INTO webhook_responses (delivery_id, attempt, sealed) VALUES (%s, 1, %s)",
        (made, sealed),
    )
    assert deliveries.read_response(db, endpoint_keyring, made, 1) == kept
    assert deliveries.read_response(db, endpoint_keyring, made, 2) is None


def test_there_is_no_delivery_with_an_unknown_id(db: Connection[Any]) -> None:
    with pytest.raises(NotFoundError):
        get_delivery(db, uuid4())


def test_the_deliveries_of_an_event_are_found(db: Connection[Any]) -> None:
    (made,) = make_deliveries(db, make_subscription(db))
    event = get_delivery(db, made).event_id
    assert [row.id for row in deliveries.list_of_event(db, event)] == [made]
    assert read_clock(db) > get_delivery(db, made).created_at
