"""The table of moves says what the contract says."""

from __future__ import annotations

from itertools import product

import pytest

from fencepost.states import (
    FINISHED,
    HELD,
    TRANSITIONS,
    WAITING,
    Cause,
    State,
    as_mermaid,
    causes_from,
    legal_moves,
    next_state,
)


def test_every_state_but_the_first_can_be_reached() -> None:
    reached = {found.to for found in TRANSITIONS.values()}
    assert reached == set(State) - {State.RECEIVED}


def test_waiting_held_and_finished_do_not_overlap_and_leave_only_received() -> None:
    assert not WAITING & HELD
    assert not WAITING & FINISHED
    assert not HELD & FINISHED
    assert set(State) - WAITING - HELD - FINISHED == {State.RECEIVED}


def test_only_a_claim_leads_into_the_held_states() -> None:
    ways_in = {
        (origin, cause)
        for (origin, cause), found in TRANSITIONS.items()
        if found.to in HELD and origin not in HELD
    }
    assert ways_in == {(State.ENCRYPTED, Cause.CLAIM), (State.RETRIED, Cause.CLAIM)}


def test_every_held_state_can_expire_so_that_no_crash_strands_a_delivery() -> None:
    for held in HELD:
        assert {Cause.EXPIRE, Cause.ABANDON} <= causes_from(held)


def test_a_move_always_writes_its_new_state_last() -> None:
    assert all(found.rows[-1] is found.to for found in TRANSITIONS.values())


def test_one_pair_of_states_always_writes_the_same_number_of_rows() -> None:
    # The database judges a move by its pair and the step of seq.
    rows: dict[tuple[State, State], set[int]] = {}
    for (origin, _), found in TRANSITIONS.items():
        rows.setdefault((origin, found.to), set()).add(len(found.rows))
    assert all(len(counts) == 1 for counts in rows.values())
    assert legal_moves() == {pair: counts.pop() for pair, counts in rows.items()}


def test_what_is_not_in_the_table_is_refused() -> None:
    for state, cause in set(product(State, Cause)) - set(TRANSITIONS):
        with pytest.raises(KeyError):
            next_state(state, cause)


def test_the_diagram_shows_every_move() -> None:
    diagram = as_mermaid()
    for (origin, cause), found in TRANSITIONS.items():
        assert any(
            line.strip().startswith(f"{origin} --> {found.to}:") and cause.lower() in line
            for line in diagram.splitlines()
        )
