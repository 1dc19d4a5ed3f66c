"""The states of a delivery, the facts that explain them, and the one table of legal moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class State(StrEnum):
    """Where a delivery stands: ``webhook_deliveries.current_state``."""

    RECEIVED = "RECEIVED"
    ENCRYPTED = "ENCRYPTED"
    LEASED = "LEASED"
    ATTEMPTED = "ATTEMPTED"
    RETRIED = "RETRIED"
    DELIVERED = "DELIVERED"
    DLQ = "DLQ"


class Fact(StrEnum):
    """What a trail row says when it explains a move instead of being one."""

    FAILED = "FAILED"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    RELEASED = "RELEASED"
    REPLAYED = "REPLAYED"
    DISCARDED = "DISCARDED"


class Cause(StrEnum):
    """Why a delivery moves."""

    SEAL = "SEAL"  # its payload was encrypted
    CLAIM = "CLAIM"  # a worker took the lease
    ATTEMPT = "ATTEMPT"  # the lease was re-validated; the request leaves
    SUCCEED = "SUCCEED"  # the receiver answered 2xx
    RETRY = "RETRY"  # a retryable failure, budget left
    EXHAUST = "EXHAUST"  # a retryable failure, budget spent
    REJECT = "REJECT"  # a failure that no retry mends
    REFUSE = "REFUSE"  # it can never be sent as it stands
    RELEASE = "RELEASE"  # it cannot be sent now: given back unsent
    EXPIRE = "EXPIRE"  # the lease ran out
    ABANDON = "ABANDON"  # the lease ran out, budget spent or crash loop
    SEND_NOW = "SEND_NOW"  # an operator moves the pending attempt forward
    REPLAY = "REPLAY"  # an operator sends it again
    DISCARD = "DISCARD"  # an operator gives it up


WAITING: Final = frozenset({State.ENCRYPTED, State.RETRIED})
"""May be claimed once due."""

HELD: Final = frozenset({State.LEASED, State.ATTEMPTED})
"""A worker holds the lease: claim, heartbeat, reaper, CHECK and index all mean this set."""


class Phase(StrEnum):
    """What a delivery is doing now, which its state and the clock tell together."""

    WAITING = "waiting"  # due, and in nobody's hands
    SLEEPING = "sleeping"  # not due yet
    INFLIGHT = "inflight"  # in a worker's hands
    PARKED = "parked"  # in the DLQ


FINISHED: Final = frozenset({State.DELIVERED, State.DLQ})
"""Nothing more happens by itself."""

INITIAL: Final = frozenset({State.RECEIVED, State.ENCRYPTED})
"""What a new row may be: sealed on arrival, or about to be."""


@dataclass(frozen=True, slots=True)
class Move:
    """A legal move: the state it leads to and the trail rows it writes, in order."""

    to: State
    rows: tuple[State | Fact, ...]


def _move(to: State, because: Fact | None = None) -> Move:
    return Move(to, (to,) if because is None else (because, to))


TRANSITIONS: Final[Mapping[tuple[State, Cause], Move]] = MappingProxyType(
    {
        (State.RECEIVED, Cause.SEAL): _move(State.ENCRYPTED),
        (State.ENCRYPTED, Cause.CLAIM): _move(State.LEASED),
        (State.RETRIED, Cause.CLAIM): _move(State.LEASED),
        (State.LEASED, Cause.ATTEMPT): _move(State.ATTEMPTED),
        (State.LEASED, Cause.REFUSE): _move(State.DLQ, Fact.FAILED),
        (State.LEASED, Cause.RELEASE): _move(State.RETRIED, Fact.RELEASED),
        (State.LEASED, Cause.EXPIRE): _move(State.RETRIED, Fact.LEASE_EXPIRED),
        (State.LEASED, Cause.ABANDON): _move(State.DLQ, Fact.LEASE_EXPIRED),
        (State.ATTEMPTED, Cause.SUCCEED): _move(State.DELIVERED),
        (State.ATTEMPTED, Cause.RETRY): _move(State.RETRIED, Fact.FAILED),
        (State.ATTEMPTED, Cause.EXHAUST): _move(State.DLQ, Fact.FAILED),
        (State.ATTEMPTED, Cause.REJECT): _move(State.DLQ, Fact.FAILED),
        (State.ATTEMPTED, Cause.EXPIRE): _move(State.RETRIED, Fact.LEASE_EXPIRED),
        (State.ATTEMPTED, Cause.ABANDON): _move(State.DLQ, Fact.LEASE_EXPIRED),
        (State.RETRIED, Cause.SEND_NOW): _move(State.RETRIED, Fact.REPLAYED),
        (State.DLQ, Cause.REPLAY): _move(State.RETRIED, Fact.REPLAYED),
        (State.DELIVERED, Cause.REPLAY): _move(State.RETRIED, Fact.REPLAYED),
        (State.ENCRYPTED, Cause.DISCARD): _move(State.DLQ, Fact.DISCARDED),
        (State.RETRIED, Cause.DISCARD): _move(State.DLQ, Fact.DISCARDED),
        (State.DLQ, Cause.DISCARD): _move(State.DLQ, Fact.DISCARDED),
    }
)
"""Everything that may happen to a delivery. Source: CONTRACT section 2.

The database's guards, the worker, the dashboard's buttons and the README's
diagram are all generated from this table.
"""


def move(state: State, cause: Cause) -> Move:
    """Look up a legal move.

    Raises:
        KeyError: the move is not legal; the caller has a defect.
    """
    return TRANSITIONS[state, cause]


def next_state(state: State, cause: Cause) -> State:
    """Say where ``cause`` takes a delivery in ``state``; KeyError when it is not legal."""
    return TRANSITIONS[state, cause].to


def causes_from(state: State) -> frozenset[Cause]:
    """List what may happen to a delivery in ``state``."""
    return frozenset(cause for origin, cause in TRANSITIONS if origin is state)


def legal_moves() -> Mapping[tuple[State, State], int]:
    """Give every legal pair of states with the number of trail rows that it writes."""
    return {(origin, found.to): len(found.rows) for (origin, _), found in TRANSITIONS.items()}


def as_mermaid() -> str:
    """Draw the table as a Mermaid state diagram, for the README."""
    labels: dict[tuple[State, State], list[str]] = {}
    for (origin, cause), found in TRANSITIONS.items():
        labels.setdefault((origin, found.to), []).append(cause.lower())
    lines = ["stateDiagram-v2", "    [*] --> RECEIVED: publish"]
    lines += [
        f"    {origin} --> {to}: {', '.join(causes)}" for (origin, to), causes in labels.items()
    ]
    return "\n".join(lines)
