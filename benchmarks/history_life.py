"""One delivery of a history that is made up: each step is a legal move, with the rows it writes."""

from __future__ import annotations

from typing import Final

import history_figures as count
import history_rows as rows
from copying import NULL, begin, integer, jsonb, moment, smallint, text, uuid
from history_figures import Figures, cell_of

from fencepost.cells import BY_KIND, BY_WAIT, REASONS, Measure
from fencepost.model import ErrorClass
from fencepost.segments import SegmentKind, WaitedFor
from fencepost.states import Fact, State

LEASE: Final = 30_000_000
_IN_FLIGHT: Final = BY_KIND[SegmentKind.IN_FLIGHT]


class OverError(Exception):
    """The next step is later than the history's end: the delivery stays as it is."""


class Life:
    """A delivery, from the outbox on. Times are microseconds since 1970."""

    __slots__ = (
        "_figures", "_head", "_is_replayed", "_until", "at", "attempts",
        "budget_start", "created_at", "dead_at", "dead_reason", "discarded_at", "due",
        "expiries", "first_attempt_at", "last_error", "last_status", "number", "received_at",
        "replay_id", "seq", "state", "token", "trail", "worker",
    )  # fmt: skip

    def __init__(self, id_: bytes, number: int, figures: Figures, *, until: int) -> None:
        """Begin.

        Args:
            id_: UUIDv7 of the moment at which it is sealed.
            number: its subscription's place in the figures.
            figures: where everything is counted.
            until: no step is later.
        """
        self.number: Final = number
        self._figures: Final = figures
        self._head: Final = rows.TRAIL_HEAD + uuid(id_)
        self._until: Final = until
        self._is_replayed = False
        self.trail: Final[list[bytes]] = []
        self.seq = self.attempts = self.budget_start = self.token = self.expiries = 0
        self.at = self.received_at = self.created_at = self.due = 0
        self.state = State.RECEIVED
        self.worker: str | None = None
        self.first_attempt_at: int | None = None
        self.last_status: int | None = None
        self.last_error: ErrorClass | None = None
        self.dead_reason: str | None = None
        self.dead_at: int | None = None
        self.discarded_at: int | None = None
        self.replay_id: bytes | None = None

    def receive(self, at: int, *, node: str, sealed_at: int, worker: str, key_id: str) -> None:
        """Take it in and seal it."""
        self.received_at, self.created_at, self.due = at, sealed_at, sealed_at
        self._row(State.RECEIVED, at, worker=node, detail=rows.told("node", node))
        self._row(State.ENCRYPTED, sealed_at, worker=worker, detail=rows.sealed(key_id))
        self._count(sealed_at, count.RECEIVED, cell_of(Measure.INGEST, sealed_at - at))
        self.state = State.ENCRYPTED

    def claim(self, at: int, *, worker: str, waited_for: WaitedFor = WaitedFor.WORKER) -> None:
        """Lease it."""
        self._check(at)
        since, waited = self.at, BY_WAIT[waited_for]
        if self.due > since:
            self._count(at, cell_of(Measure.SLEEPING, self.due - since))
            since = self.due
        self._count(at, cell_of(waited, at - since))
        self.token += 1
        self.worker, self.state = worker, State.LEASED
        self._row(State.LEASED, at, worker=worker, detail=rows.leased(waited_for, LEASE / 1e6))

    def attempt(self, at: int, *, url: str) -> None:
        """Let a request leave."""
        self._check(at)
        self._count(at, count.ATTEMPTS, cell_of(Measure.PREPARING, at - self.at))
        self.attempts += 1
        self.state = State.ATTEMPTED
        self.first_attempt_at = self.first_attempt_at or at
        self._row(
            State.ATTEMPTED, at, worker=self.worker, detail=rows.attempted(self.attempts, url)
        )

    def deliver(self, at: int, *, status: int) -> None:
        """Let the receiver take it."""
        self._check(at)
        took = at - self.at
        is_first = self.attempts == 1
        self._end(at, count.DELIVERED, *((count.FIRST_DELIVERED,) if is_first else ()))
        self._finish(at)
        self.last_status, self.last_error, self.expiries = status, None, 0
        answer = rows.answer(status, None, took // 1000)
        self._row(State.DELIVERED, at, worker=self.worker, answer=answer)
        self.state, self.worker = State.DELIVERED, None

    def fail(
        self,
        at: int,
        *,
        error: ErrorClass,
        status: int | None,
        said: str,
        delay: int | None = None,
        reason: str = "",
    ) -> None:
        """Let the attempt fail: with a delay before the next, or with the reason for its end."""
        self._check(at)
        took = at - self.at
        self._end(at, count.FAILED)
        self.last_status, self.last_error, self.expiries = status, error, 0
        answer = rows.answer(status, said, took // 1000)
        self._row(
            Fact.FAILED, at, worker=self.worker, answer=answer, detail=rows.told("class", error)
        )
        if delay is None:
            self._die(at, reason, cell=REASONS[error], worker=self.worker)
        else:
            self._retry(at, delay, worker=self.worker, reason=None)

    def expire(self, at: int, *, reaper: str) -> None:
        """Let its lease run out while a request is open, and a reaper take it back."""
        self._check(at)
        self._end(at, count.LEASE_EXPIRIES)
        self.expiries += 1
        self.last_error = ErrorClass.LEASE_EXPIRED
        detail = jsonb({"from_state": self.state, "expiries": self.expiries})
        self._row(Fact.LEASE_EXPIRED, at, worker=self.worker, detail=detail)
        self._retry(at, 0, worker=reaper, reason="lease_expired")

    def release(self, at: int, *, reason: str, delay: int) -> None:
        """Give it back unsent."""
        self._check(at)
        self._count(at, cell_of(Measure.PREPARING, at - self.at))
        self._row(Fact.RELEASED, at, worker=self.worker, detail=rows.told("reason", reason))
        self._retry(at, delay, worker=self.worker, reason=reason)

    def replay(self, at: int, *, actor: str, reason: str, replay_id: bytes, as_text: str) -> None:
        """Send it again, with a fresh budget."""
        self._check(at)
        self._count(at, count.REPLAYED, cell_of(Measure.PARKED, at - self.at))
        told = jsonb({"operator": actor, "reason": reason, "replay_id": as_text})
        self._row(Fact.REPLAYED, at, detail=told)
        self.budget_start, self.expiries, self.first_attempt_at = self.attempts, 0, None
        self.dead_at = self.dead_reason = None
        self.replay_id, self._is_replayed = replay_id, True
        self._retry(at, 0, worker=None, reason="replay")

    def discard(self, at: int, *, actor: str, reason: str) -> None:
        """Give it up."""
        self._check(at)
        self._count(at, count.DISCARDED, cell_of(Measure.PARKED, at - self.at))
        self._row(Fact.DISCARDED, at, detail=jsonb({"operator": actor, "reason": reason}))
        dead_at = self.dead_at
        self._die(at, f"discarded: {reason}", cell=None, worker=None)
        self.dead_at, self.discarded_at = dead_at, at

    def as_row(self, event: bytes, subscription: bytes, *, max_attempts: int) -> bytes:
        """Give the delivery's own row.

        Args:
            event: the fields of the event: its id.
            subscription: the field of its id.
            max_attempts: of the subscription.
        """
        is_held = self.worker is not None
        is_waiting = self.state in {State.ENCRYPTED, State.RETRIED}
        due = self.due if is_waiting or is_held else None
        return b"".join((
            begin(25), self.field, event[:20], subscription, event[20:], rows.STATES[self.state],
            rows.NUMBERS[self.seq], rows.NUMBERS[self.attempts], rows.NUMBERS[max_attempts],
            rows.NUMBERS[self.budget_start], moment(self.first_attempt_at), moment(due),
            smallint(1 if self._is_replayed else 0), text(self.worker),
            moment(self.at + LEASE if is_held else None), rows.TOKENS[self.token],
            rows.NUMBERS[self.expiries], integer(self.last_status), text(self.last_error),
            text(self.dead_reason), moment(self.dead_at), moment(self.discarded_at),
            uuid(self.replay_id), moment(self.created_at), moment(self.at),
        ))  # fmt: skip

    @property
    def field(self) -> bytes:
        """The field of its id."""
        return self._head[len(begin(0)) :]

    @property
    def used(self) -> int:
        """Attempts of this budget."""
        return self.attempts - self.budget_start

    def _check(self, at: int) -> None:
        if at > self._until:
            raise OverError

    def _count(self, at: int, *cells: int) -> None:
        self._figures.count(self.number, at, *cells)

    def _end(self, at: int, *cells: int) -> None:
        """Count an attempt that was answered, or failed."""
        retries = (count.RETRIES,) if self.attempts > 1 else ()
        self._count(at, count.ENDED, *retries, *cells, cell_of(_IN_FLIGHT, at - self.at))

    def _finish(self, at: int) -> None:
        """Count the whole way, unless an operator had a hand in it."""
        if not self._is_replayed:
            self._count(at, cell_of(Measure.TOTAL, at - self.received_at))

    def _die(self, at: int, reason: str, *, cell: int | None, worker: str | None) -> None:
        if cell is not None:
            self._count(at, count.DEAD, cell)
            self._finish(at)
        self._row(State.DLQ, at, worker=worker, detail=rows.told("reason", reason))
        self.state, self.worker = State.DLQ, None
        self.dead_at, self.dead_reason = at, reason

    def _retry(self, at: int, delay: int, *, worker: str | None, reason: str | None) -> None:
        self.due = at + delay
        told: dict[str, object] = {"delay_ms": delay // 1000, "due_at": rows.written(self.due)}
        if reason is not None:
            told["reason"] = reason
        self._row(State.RETRIED, at, worker=worker, detail=jsonb(told))
        self.state, self.worker = State.RETRIED, None

    def _row(
        self,
        state: State | Fact,
        at: int,
        *,
        worker: str | None = None,
        answer: bytes = rows.NO_ANSWER,
        detail: bytes = NULL,
    ) -> None:
        self.seq += 1
        self.at = at
        self.trail.append(
            self._head + rows.NUMBERS[self.seq] + rows.STATES[state] + rows.worker(worker)
            + rows.TOKENS[self.token] + answer + detail + moment(at)
        )  # fmt: skip
