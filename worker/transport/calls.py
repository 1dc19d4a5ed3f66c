"""One request under way: how far it has come, and why it was ended."""

from __future__ import annotations

import time
from enum import StrEnum

from fencepost.model import Outgoing
from worker.transport.base import Done


class Phase(StrEnum):
    """How far a request has come."""

    QUEUED = "waiting for its turn"
    LOOK_UP = "looking the name up"
    CONNECT = "connecting"
    TLS = "agreeing on TLS"
    SEND = "sending the request"
    HEAD = "waiting for the answer"
    BODY = "reading the answer's body"


class Cut(StrEnum):
    """Why we ended a request ourselves."""

    DEADLINE = "the total deadline passed"
    CONNECT = "the time to connect passed"
    LEASE = "lease lost"
    CLOSED = "the worker stopped"


class Call:
    """One request under way: how far it is, how long it took, and why it was cut short."""

    def __init__(self, outgoing: Outgoing, done: Done) -> None:
        self.outgoing = outgoing
        self.done = done
        self.phase = Phase.QUEUED
        self.cut: Cut | None = None
        self.started_at = self.phase_at = time.monotonic()
        self.ends_at = float("inf")
        self.detail: dict[str, object] = {}
        self.status_seen: int | None = None

    def start(self, deadline: float) -> None:
        """Let the total deadline run: from now, before the name is looked up."""
        self.started_at = self.phase_at = time.monotonic()
        self.ends_at = self.started_at + deadline
        self.phase = Phase.LOOK_UP

    def enter(self, phase: Phase, *, measured: str | None = None) -> None:
        """Begin a phase, and note under a name how long the one before it took."""
        if measured is not None:
            self.measure(measured)
        self.phase, self.phase_at = phase, time.monotonic()

    def measure(self, name: str) -> None:
        """Note the milliseconds since this phase began."""
        self.detail[name] = round((time.monotonic() - self.phase_at) * 1000, 1)

    def elapsed_ms(self) -> int:
        """Give the whole milliseconds since the look-up began."""
        return round((time.monotonic() - self.started_at) * 1000)
