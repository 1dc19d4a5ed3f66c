"""Which acts of the operator log are meant: a query string, as pages and API have it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias, get_args

from fencepost import filter_values as read
from fencepost.errors import InvalidInputError

NAMES: Final = ("actor", "action", "target", "outcome", "from", "to")

Outcome: TypeAlias = Literal["done", "denied", "refused"]
OUTCOMES: Final[tuple[str, ...]] = get_args(Outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFilter:
    """Conditions that all must hold. Empty: everything.

    Attributes:
        actor: by this one, written as the log does: ``user dana``, ``token ci``.
        action: this act, or all on one subject: ``delivery.replay``, ``delivery``.
        target: done to the thing with this id.
        outcome: ``done``, ``denied`` by role, or ``refused`` by the state of the thing.
        since: ``from``, inclusive: a moment, or a time before now.
        until: ``to``, exclusive; likewise.
    """

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    outcome: str | None = None
    since: datetime | timedelta | None = None
    until: datetime | timedelta | None = None

    @classmethod
    def from_params(
        cls,
        params: Mapping[str, Sequence[str]],
        *,
        known_only: bool = False,
        also: Collection[str] = (),
    ) -> ActionFilter:
        """Read a query string; the arguments are those of ``DeliveryFilter.from_params``.

        Raises:
            InvalidInputError: names the parameter.
        """
        given: dict[str, str] = {}
        for name, values in params.items():
            if name in also or (known_only and name not in NAMES):
                continue
            if name not in NAMES:
                raise InvalidInputError(name, f"there is no filter {name[:40]!r}")
            kept = [value for value in values if value] if known_only else list(values)
            if len(kept) > 1:
                raise InvalidInputError(name, f"{name} is given too often")
            if kept:
                given[name] = kept[0]
        outcome = given.get("outcome")
        if outcome is not None and outcome not in OUTCOMES:
            raise InvalidInputError("outcome", f"outcome must be one of {' '.join(OUTCOMES)}")
        return cls(
            actor=read.text("actor", given.get("actor")),
            action=read.text("action", given.get("action")),
            target=read.text("target", given.get("target")),
            outcome=outcome,
            since=read.moment("from", given.get("from")),
            until=read.moment("to", given.get("to")),
        )

    def to_params(self) -> dict[str, str]:
        """Give the canonical parameters: in the order of ``NAMES``, only those that are set."""
        found = {
            "actor": self.actor,
            "action": self.action,
            "target": self.target,
            "outcome": self.outcome,
            "from": next(iter(read.moment_texts(self.since)), None),
            "to": next(iter(read.moment_texts(self.until)), None),
        }
        return {name: value for name, value in found.items() if value is not None}

    def fingerprint(self) -> str:
        """Give a short text that differs between filters: cursors are bound to it."""
        canonical = json.dumps(["actions", self.to_params()]).encode()
        return base64.urlsafe_b64encode(hashlib.sha256(canonical).digest()[:12]).decode()
