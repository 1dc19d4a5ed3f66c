"""The demo's producer, and an eye on what comes of its events."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import click
from psycopg import Connection

from fencepost.cli.output import say
from fencepost.cli.running import Running
from fencepost.cli.session import open_connection
from fencepost.demo import make_event
from fencepost.errors import DatabaseUnavailableError
from fencepost.filters import DeliveryFilter
from fencepost.model import Delivery
from fencepost.producer import Producer
from fencepost.publish import publish
from fencepost.states import State
from fencepost.store.deliveries import count_by_state, list_deliveries
from fencepost.store.pool import errors_as_ours
from fencepost.store.session import Role


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of the traffic."""

    published: int
    states: Mapping[State, int]
    recovered: Delivery | None
    """The newest that failed first and was delivered then."""

    @property
    def has_everything(self) -> bool:
        """Say whether there is something of every kind to be seen."""
        delivered, dead = self.states[State.DELIVERED], self.states[State.DLQ]
        return bool(delivered and dead and self.recovered)

    def in_words(self) -> str:
        """Word it in one line."""
        standing = ", ".join(f"{count} {state}" for state, count in self.states.items() if count)
        return f"Published {self.published} events; deliveries: {standing or 'none'}."


class Traffic:
    """Events, one a step, for a time or without end.

    Args:
        at: what is running.
        seconds: until it asks everything to stop; None: somebody else does.
    """

    def __init__(self, at: Running, *, seconds: float | None) -> None:
        self._at = at
        self._until = None if seconds is None else time.monotonic() + seconds
        self._producer = Producer.of(at.settings)
        self._random = random.Random(7)  # noqa: S311 - the same events each time
        self._published = 0
        self._hinted: UUID | None = None

    def step(self) -> None:
        """Publish one event; once there is a delivery worth a look, say which."""
        if self._until is not None and time.monotonic() >= self._until:
            self._at.stop.set()
            return
        event_type, payload = make_event(self._random)
        try:
            with self._connection("producer") as conn, conn.transaction():
                publish(conn, event_type, payload, producer=self._producer)
            self._published += 1
            if self._hinted is None:
                self._hint()
        except DatabaseUnavailableError as error:
            say(f"{error} Trying again.")

    def summary(self) -> Summary:
        """Count how everything stands."""
        with self._connection("dashboard") as conn:
            return Summary(self._published, count_by_state(conn), _recovered(conn))

    def _hint(self) -> None:
        with self._connection("dashboard") as conn:
            found = _recovered(conn)
        if found is None:
            return
        self._hinted = found.id
        click.echo("\nWorth a look, a delivery that failed, waited and then arrived:")
        click.echo(f"  {self._at.url}/deliveries/{found.id}")
        click.echo(f"  fencepost delivery show {found.id}")

    @contextmanager
    def _connection(self, role: Role) -> Iterator[Connection[Any]]:
        with errors_as_ours(), open_connection(self._at.settings, role) as conn:
            yield conn


def _recovered(conn: Connection[Any]) -> Delivery | None:
    """Find the newest delivery that needed more than one attempt."""
    scope = DeliveryFilter(state=(State.DELIVERED,), min_attempts=2)
    rows = list_deliveries(conn, scope, limit=1).rows
    return rows[0] if rows else None
