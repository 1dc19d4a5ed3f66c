"""Which deliveries are meant: a query string, a stored scope and a command's options alike."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from fencepost import filter_values as read
from fencepost.errors import InvalidInputError
from fencepost.filter_values import Codes
from fencepost.model import ErrorClass
from fencepost.states import Phase, State

NAMES: Final = (
    "id", "sub", "state", "phase", "type", "from", "to", "code", "err",
    "min_attempts", "max_attempts", "q", "replay", "worker", "fenced", "discarded",
)  # fmt: skip
"""The parameters of a filter; lists take ``after before limit`` besides."""

MOST_VALUES: Final = 100
"""Of one parameter."""

_REPEATABLE: Final = frozenset({"id", "sub", "state", "type", "code", "err"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Conditions that all must hold; of one with several values, any. Empty: everything.

    Attributes:
        id: these deliveries.
        sub: of these subscriptions.
        state: in these states now.
        phase: doing this now.
        type: whose event type matches one of these globs.
        since: ``from``, inclusive: a moment, or a time before now. What is compared is when the
            delivery was made, or, where ``state`` is the DLQ alone, when it entered the DLQ.
        until: ``to``, exclusive; likewise.
        code: whose last answer had one of these status codes.
        err: whose last failure was of one of these classes.
        min_attempts: with at least so many attempts in total.
        max_attempts: with at most so many.
        q: whose id or event id begins so, or whose event has exactly this idempotency key.
        replay: last touched by this bulk replay.
        worker: with a trail row of this worker.
        fenced: True: with a late write that fencing refused; False: without; None: either.
        discarded: True: given up by an operator; False: not so; None: either.
    """

    id: tuple[UUID, ...] = ()
    sub: tuple[UUID, ...] = ()
    state: tuple[State, ...] = ()
    phase: Phase | None = None
    type: tuple[str, ...] = ()
    since: datetime | timedelta | None = None
    until: datetime | timedelta | None = None
    code: tuple[Codes, ...] = ()
    err: tuple[ErrorClass, ...] = ()
    min_attempts: int | None = None
    max_attempts: int | None = None
    q: str | None = None
    replay: UUID | None = None
    worker: str | None = None
    fenced: bool | None = None
    discarded: bool | None = None

    @classmethod
    def from_params(
        cls,
        params: Mapping[str, Sequence[str]],
        *,
        known_only: bool = False,
        also: Collection[str] = (),
    ) -> DeliveryFilter:
        """Read a query string.

        Args:
            params: every value of every name, as Werkzeug's ``args.to_dict(flat=False)`` has it.
            known_only: for pages: pass over names that are no filter, and over the empty values
                that a form sends. An API refuses both, lest a misspelt scope mean everything.
            also: names that are somebody else's, such as ``after before limit``.

        Raises:
            InvalidInputError: names the parameter.
        """
        given: dict[str, list[str]] = {}
        for name, values in params.items():
            if name in also:
                continue
            if name not in NAMES:
                if known_only:
                    continue
                raise InvalidInputError(name, f"there is no filter {name[:40]!r}")
            kept = [value for value in values if value] if known_only else list(values)
            if len(kept) > (MOST_VALUES if name in _REPEATABLE else 1):
                raise InvalidInputError(name, f"{name} is given too often")
            if kept:
                given[name] = kept
        return cls._from_lists(given)

    @classmethod
    def from_json(cls, data: object) -> DeliveryFilter:
        """Read the JSON form: an object of the same parameters, a string or a list each.

        Raises:
            InvalidInputError: names the parameter, or ``filter``.
        """
        if not isinstance(data, Mapping):
            raise InvalidInputError("filter", "filter must be an object")
        params: dict[str, list[str]] = {}
        for name, value in data.items():
            texts = [
                str(item) if isinstance(item, int) and not isinstance(item, bool) else item
                for item in (value if isinstance(value, list) else [value])
            ]
            if not all(isinstance(text, str) for text in texts) or not texts:
                raise InvalidInputError(name, f"{name[:40]} must be a string or a list of strings")
            params[name] = texts
        return cls.from_params(params)

    @classmethod
    def _from_lists(cls, given: Mapping[str, list[str]]) -> DeliveryFilter:
        def many(name: str) -> list[str]:
            return given.get(name, [])

        def one(name: str) -> str | None:
            return given[name][0] if name in given else None

        found = cls(
            id=read.ids("id", many("id")),
            sub=read.ids("sub", many("sub")),
            state=read.states("state", many("state")),
            phase=read.phase("phase", one("phase")),
            type=read.types("type", many("type"), most=MOST_VALUES),
            since=read.moment("from", one("from")),
            until=read.moment("to", one("to")),
            code=read.codes("code", many("code")),
            err=read.error_classes("err", many("err")),
            min_attempts=read.count("min_attempts", one("min_attempts")),
            max_attempts=read.count("max_attempts", one("max_attempts")),
            q=read.text("q", one("q")),
            replay=next(iter(read.ids("replay", many("replay"))), None),
            worker=read.text("worker", one("worker")),
            fenced=read.flag("fenced", one("fenced")),
            discarded=read.flag("discarded", one("discarded")),
        )
        if _is_after(found.since, found.until):
            raise InvalidInputError("from", "from is later than to")
        if (found.min_attempts or 0) > (found.max_attempts or read.MOST_ATTEMPTS):
            raise InvalidInputError("min_attempts", "min_attempts is more than max_attempts")
        return found

    def to_params(self) -> dict[str, list[str]]:
        """Give the canonical parameters: in the order of ``NAMES``, only those that are set."""
        lists: dict[str, list[str]] = {
            "id": [str(value) for value in self.id],
            "sub": [str(value) for value in self.sub],
            "state": [value.lower() for value in self.state],
            "phase": [] if self.phase is None else [self.phase.value],
            "type": list(self.type),
            "from": read.moment_texts(self.since),
            "to": read.moment_texts(self.until),
            "code": [str(value) for value in self.code],
            "err": [value.value for value in self.err],
            "min_attempts": [] if self.min_attempts is None else [str(self.min_attempts)],
            "max_attempts": [] if self.max_attempts is None else [str(self.max_attempts)],
            "q": [] if self.q is None else [self.q],
            "replay": [] if self.replay is None else [str(self.replay)],
            "worker": [] if self.worker is None else [self.worker],
            "fenced": [] if self.fenced is None else [str(int(self.fenced))],
            "discarded": [] if self.discarded is None else [str(int(self.discarded))],
        }
        return {name: lists[name] for name in NAMES if lists[name]}

    def to_json(self) -> dict[str, list[str]]:
        """Give the form that a replay stores: what ``from_json`` reads."""
        return self.to_params()

    def in_words(self) -> str:
        """Say the scope in one line: ``state dlq, sub 0190… or 0191…``; ``everything`` for none."""
        parts = (f"{name} {' or '.join(values)}" for name, values in self.to_params().items())
        return ", ".join(parts) or "everything"

    def fingerprint(self) -> str:
        """Give a short text that differs between filters: cursors are bound to it."""
        canonical = json.dumps(self.to_params(), separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(hashlib.sha256(canonical).digest()[:12]).decode()

    @property
    def is_by_entry(self) -> bool:
        """Dead letters alone: what counts is when they entered the DLQ, for order and range."""
        return self.state == (State.DLQ,)

    @property
    def is_relative(self) -> bool:
        """A bound moves with the clock."""
        return isinstance(self.since, timedelta) or isinstance(self.until, timedelta)

    def pinned(self, now: datetime) -> DeliveryFilter:
        """Give the same filter with its relative bounds counted back from ``now``."""
        return replace(self, since=_pin(self.since, now), until=_pin(self.until, now))

    def of_dead_letters(self) -> DeliveryFilter:
        """Give what a bulk action means by it: where it names no state, the DLQ alone."""
        return self if self.state else replace(self, state=(State.DLQ,))


def _pin(bound: datetime | timedelta | None, now: datetime) -> datetime | None:
    return now - bound if isinstance(bound, timedelta) else bound


def _is_after(since: datetime | timedelta | None, until: datetime | timedelta | None) -> bool:
    if isinstance(since, datetime) and isinstance(until, datetime):
        return since > until
    if isinstance(since, timedelta) and isinstance(until, timedelta):
        return since < until  # a shorter time ago is later
    return False
