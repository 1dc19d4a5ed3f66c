"""What the rows of deliveries and trails are put together from; most of it is written once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final

from copying import NULL, begin, bigint, integer, jsonb, text

from fencepost.segments import WaitedFor
from fencepost.states import Fact, State

TRAIL_COLUMNS: Final = (
    "delivery_id seq state worker_id fencing_token http_status_code latency_ms error_message"
    " detail created_at"
)
COLUMNS: Final = (
    "id event_id subscription_id event_type position current_state seq attempt_count max_attempts"
    " budget_start first_attempt_at next_attempt_at lane worker_id lease_expires_at fencing_token"
    " expiries last_status last_error dead_reason dead_at discarded_at replay_id created_at"
    " updated_at"
)

STATES: Final = {state: text(state) for state in (*State, *Fact)}
NUMBERS: Final = [integer(number) for number in range(5000)]
"""Of attempts, tokens and rows of a trail: no delivery has more."""
TOKENS: Final = [bigint(number) for number in range(5000)]
TRAIL_HEAD: Final = begin(10)
NO_ANSWER: Final = NULL * 3
_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)

worker = cache(text)


@cache
def sealed(key_id: str) -> bytes:
    """Say what ENCRYPTED does."""
    return jsonb({"key_id": key_id, "sealed_by": "producer"})


@cache
def leased(waited_for: WaitedFor, lease_seconds: float) -> bytes:
    """Say what LEASED does."""
    return jsonb({"lease_seconds": lease_seconds, "waited_for": waited_for})


@cache
def attempted(number: int, url: str) -> bytes:
    """Say what ATTEMPTED does."""
    return jsonb({"attempt": number, "url": url, "config_version": 1})


@cache
def told(name: str, value: str) -> bytes:
    """Say one thing."""
    return jsonb({name: value})


def answer(status: int | None, said: str | None, latency_ms: int) -> bytes:
    """Write the three fields of an answer."""
    return integer(status) + integer(latency_ms) + text(said)


def written(microseconds: int) -> str:
    """Write a moment as the details of trails do."""
    return (_1970 + timedelta(microseconds=microseconds)).isoformat()
