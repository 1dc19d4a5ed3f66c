"""Why a delivery stands where it stands, and what comes next, as a colleague would say it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from fencepost.explanation import Explanation, explain, is_held, obstacle
from fencepost.states import State
from fencepost.timeline_causes import causes
from trails import (
    ORIGIN,
    Trail,
    at,
    circumstances,
    delivery,
    failed_once,
    fenced_out,
    late,
    taken_in,
)


def explained(
    trail: Trail, now: float, *, of: dict[str, Any] | None = None, **more: Any
) -> Explanation:
    about = circumstances(now, **more)
    found = delivery(trail.rows, **(of or {}))
    return explain(found, trail.build(now, is_paused=about.is_paused), about)


def dead(reason: str, **more: Any) -> dict[str, Any]:
    return {"dead_reason": reason, **more}


def test_a_success_says_when_and_that_it_is_over() -> None:
    told = explained(fenced_out(), 99_999, of={"last_status": 200})
    assert told.state == "orders answered 200 on attempt 2, 31.42 s after it was taken in."
    assert told.next == "Nothing more, unless somebody replays it."


def test_the_first_try_that_works_has_no_causes() -> None:
    trail = taken_in().add(20, "LEASED", "a", 1, waited_for="worker").add(30, "ATTEMPTED", "a", 1)
    trail.add(99, "DELIVERED", "a", 1, status=204)
    assert explained(trail, 5_000).causes == ()


def test_a_backoff_says_when_the_next_attempt_is() -> None:
    told = explained(failed_once(), 5_130, of={"next_attempt_at": at(15_130)})
    assert told.state == "Its last attempt ended with 503, which is retried."
    assert told.next == "Attempt 2 is due at 2026-11-30 16:53:35.131Z."
    assert told.next_at == at(15_130)
    assert told.causes == ("Attempt 1 ended with HTTP 503.",)


def test_a_backoff_without_a_worker_warns() -> None:
    of = {"next_attempt_at": at(15_130)}
    told = explained(failed_once(), 5_130, of=of, workers=0, last_beat=at(1_130))
    assert told.next.endswith(
        "if a worker runs by then. No worker is running: the last one reported at"
        " 2026-11-30 16:53:21.131Z."
    )


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "The next worker with a free slot claims it."),
        ({"workers": 0, "last_beat": None}, "No worker has ever reported itself."),
        ({"behind": UUID(int=5)}, f"It waits for its turn behind {UUID(int=5)}."),
        ({"rate_limit_per_second": 2.5, "max_in_flight": 3}, "2.5 per second, 3 in flight."),
    ],
)
def test_a_due_delivery_says_what_it_waits_for(more: dict[str, Any], says: str) -> None:
    told = explained(taken_in(), 4_000, of={"next_attempt_at": at(12)}, **more)
    assert told.state == "It is encrypted and waits for its first attempt."
    assert told.next.startswith("Attempt 1 is due. ")
    assert told.next.endswith(says)


def test_a_held_one_says_why_and_until_when() -> None:
    more = {"state": "paused", "paused_reason": "theirs is down"}
    told = explained(failed_once(), 60_000, of={"next_attempt_at": at(15_130)}, **more)
    assert told.state.endswith("It is held: its subscription is paused (theirs is down).")
    assert told.next == "Attempt 2 is made when somebody resumes it."
    about = circumstances(0, **more)
    assert is_held(delivery(failed_once().rows), about)
    assert not is_held(delivery(fenced_out().rows), about)


@pytest.mark.parametrize(
    ("more", "says"),
    [({"removed_at": ORIGIN}, "its subscription is removed"), ({"is_erased": True}, "is erased")],
)
def test_what_cannot_be_sent_any_more_says_so(more: dict[str, Any], says: str) -> None:
    waiting = explained(failed_once(), 60_000, **more)
    assert waiting.next.startswith("A worker moves it to the DLQ")
    assert says in waiting.next
    ended = failed_once().add(60_000, "FAILED", "a", 2).add(60_000, "DLQ", "a", 2)
    assert says in explained(ended, 90_000, of=dead("x"), **more).next
    assert obstacle(circumstances(0, **more)) is not None


def test_one_in_a_workers_hands_says_whose_and_for_how_long() -> None:
    trail = taken_in().add(20, "LEASED", "a", 1)
    of = {"worker_id": "a", "lease_expires_at": at(30_020)}
    told = explained(trail, 20, of=of)
    assert told.state == "a has claimed it and prepares attempt 1."
    assert told.next.startswith("Its lease holds until 2026-11-30 16:53:50.021Z;")
    trail.add(30, "ATTEMPTED", "a", 1)
    told = explained(trail, 31_020, of=of)
    assert told.state == "a waits for the answer to attempt 1."
    assert told.next.startswith("Its lease ran out at 2026-11-30 16:53:50.021Z")
    assert "No worker" in explained(trail, 31_020, of=of, workers=0).next


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("budget_spent", "its budget of attempts is spent (the last outcome: 503)."),
        ("not_retryable", "refused it in a way that no retry mends (the last outcome: 503)."),
        ("crash_loop", "Every worker that took it died"),
        ("something_new", "It was dead-lettered: something_new"),
    ],
)
def test_a_dead_letter_says_why(reason: str, says: str) -> None:
    trail = failed_once().add(20_000, "FAILED", "a", 2).add(20_000, "DLQ", "a", 2, reason=reason)
    told = explained(trail, 90_000, of=dead(reason, last_status=503))
    assert says in told.state
    assert told.next == "It stays in the DLQ until somebody replays or discards it."


def test_a_discarded_one_is_not_offered_again() -> None:
    trail = failed_once().add(500, "DISCARDED", "cli al", operator="al", reason="old")
    trail.add(500, "DLQ", "cli al", reason="discarded: old")
    told = explained(trail, 900, of=dead("discarded: old", discarded_at=at(500)))
    assert told.state == "An operator gave it up: old."
    assert told.next.startswith("Nothing more")
    assert told.causes[-1] == "Given up by al: old."


def test_every_state_has_an_explanation() -> None:
    for state in State:
        trail = Trail().add(0, "RECEIVED", "n").add(5, state, "a", 1)
        told = explained(trail, 10)
        assert told.state.endswith(".")
        assert told.next.endswith(".")


def test_an_expiry_names_the_old_holder_and_what_became_of_it() -> None:
    trail = fenced_out()
    refused = list(causes(trail.build(99_999, late(33_200, "a1", 41))))
    assert refused[0] == (
        "The lease of a1 (token 41) ran out while its request was open; 2.82 s later its write"
        " of DELIVERED was refused."
    )
    assert refused[1].startswith("The receiver may have seen it more than once: no answer to attem")
    noticed = list(causes(trail.build(99_999, late(33_200, "a1", 41, "heartbeat"))))
    assert "it noticed 2.82 s later" in noticed[0]
    assert "no further sign" in next(causes(trail.build(99_999)))


def test_many_expiries_are_counted() -> None:
    trail = taken_in()
    for token in range(1, 6):
        start = token * 100
        trail.add(start, "LEASED", "a", token).add(start + 50, "LEASE_EXPIRED", "a", token)
        trail.add(start + 50, "RETRIED", "b", token, delay_ms=0)
    told = list(causes(trail.build(999)))
    assert sum("ran out before its request left" in cause for cause in told) == 3
    assert "2 more leases ran out without an outcome." in told
    assert not any("more than once" in cause for cause in told), "nothing was sent"


def test_failures_of_one_kind_are_one_cause() -> None:
    trail = taken_in()
    outcomes = [503, 503, 503, None, 503, 503]
    for number, status in enumerate(outcomes, start=1):
        start = number * 1_000
        trail.add(start, "LEASED", "a", number).add(start + 1, "ATTEMPTED", "a", number)
        kind = {"class": "http_5xx" if status else "timeout"}
        said = None if status else "no answer within 15 s"
        trail.add(start + 9, "FAILED", "a", number, status=status, said=said, **kind)
        trail.add(start + 9, "RETRIED", "a", number, delay_ms=500)
    told = list(causes(trail.build(9_999)))
    assert told[:2] == [
        "5 attempts (1, 2, 3, 5, …) ended with HTTP 503.",
        "Attempt 4 ended with timeout: no answer within 15 s.",
    ]
    assert "no answer to attempt 4 is known" in told[2]


def test_attempts_are_named_as_people_do() -> None:
    def of(*numbers: int) -> str:
        trail = taken_in()
        for number in range(1, max(numbers) + 1):
            trail.add(number * 10, "ATTEMPTED", "a", number)
            kind = {"class": "http_5xx"}
            status = 503 if number in numbers else 500
            trail.add(number * 10 + 5, "FAILED", "a", number, status=status, **kind)
            trail.add(number * 10 + 5, "RETRIED", "a", number, delay_ms=0)
        (told,) = [cause for cause in causes(trail.build(999)) if "503" in cause]
        return told.partition(" ended")[0]

    assert of(1, 2) == "Attempts 1 and 2"
    assert of(1, 2, 3) == "Attempts 1 to 3"
    assert of(1, 3, 5) == "Attempts 1, 3 and 5"


@pytest.mark.parametrize(
    ("waited_for", "says"),
    [
        ("worker", "It waited 5 s for a worker: none was running"),
        ("slot", "It waited 5 s for a free slot"),
        ("rate", "It waited 5 s for the rate limit"),
        ("order", "It waited 5 s for its turn"),
        ("paused", "It was held 5 s because its subscription was paused"),
    ],
)
def test_a_long_wait_says_what_for(waited_for: str, says: str) -> None:
    trail = taken_in().add(5_012, "LEASED", "a", 1, waited_for=waited_for)
    assert [cause for cause in causes(trail.build(5_020)) if cause.startswith(says)]
    short = taken_in().add(900, "LEASED", "a", 1, waited_for=waited_for)
    assert list(causes(short.build(901))) == []


def test_releases_and_replays_are_told() -> None:
    trail = taken_in()
    for token in (1, 2):
        trail.add(token * 100, "LEASED", "a", token)
        trail.add(token * 100, "RELEASED", "a", token, reason="key_unavailable")
        trail.add(token * 100, "RETRIED", "a", token, delay_ms=30)
    trail.add(700, "REPLAYED", "user al", operator="user al", reason="key is back")
    trail.add(700, "RETRIED", "user al", delay_ms=0)
    assert list(causes(trail.build(701)))[-2:] == [
        "It was given back unsent 2 times: the key that sealed it is not in the keyring.",
        "Sent again by user al: key is back.",
    ]
    assert explained(trail, 701, of={"next_attempt_at": at(700)}).state == "user al sends it again."
