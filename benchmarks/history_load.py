"""Writes a history that is made up into a migrated, empty database, day by day."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import history_rows
from copying import NULL, bigint, copy, integer, moment, raw, row, text, uuid
from history_fate import FENCED_COLUMNS, Fates
from history_figures import COLUMNS as ROLLUP_COLUMNS
from history_figures import HOUR, Figures
from history_life import Life
from history_plan import Plan
from history_subscriptions import Subscription
from psycopg import Connection, sql

from fencepost.keyring import Keyring
from fencepost.store.rollups import MINUTES_KEPT

_NODE: Final = "producer-1"
_JSON: Final = "application/json"
_KEYED: Final = 0.05
"""Share of events with an idempotency key."""
_EVENTS: Final = (
    "id event_type content_type payload_bytes idempotency_key node sealed_by created_at"
)


@dataclass(slots=True)
class Day:
    """The rows of a day's events, and of all that came of them later."""

    events: list[bytes] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    deliveries: list[bytes] = field(default_factory=list)
    trail: list[bytes] = field(default_factory=list)
    fenced: list[bytes] = field(default_factory=list)
    rollups: list[bytes] = field(default_factory=list)


class Writer:
    """Makes days and copies them: one is copied while the next one is made."""

    def __init__(self, plan: Plan, keyring: Keyring) -> None:
        edge = plan.until - int(MINUTES_KEPT.total_seconds()) * 1_000_000
        self.folded_upto: Final = edge - edge % HOUR
        self._plan: Final = plan
        self._keyring: Final = keyring
        self._figures: Final = Figures(
            [each.id for each in plan.all], minutes_from=self.folded_upto
        )
        self.fates: Final = Fates(plan, self._figures)
        self._fields: Final = [uuid(each.id) for each in plan.all]
        self.position = 0

    def write(self, conn: Connection[Any], *, show: Callable[[int], None]) -> int:
        """Write everything, a transaction for each day; give how many deliveries there are.

        Args:
            conn: in autocommit, used by a thread of this.
            show: told how many deliveries there are by now.
        """
        made = 0
        with ThreadPoolExecutor(1) as threads:
            running: Future[None] | None = None
            for ends_at, times in self._plan.days_and_events():
                day = self._day(ends_at, times)
                if running is not None:
                    running.result()
                running = threads.submit(_copy_day, conn, day)
                made += len(day.deliveries)
                show(made)
            if running is not None:
                running.result()
        return made

    def _day(self, ends_at: int, times: Sequence[int]) -> Day:
        day = Day()
        for at in times:
            self._event(day, at)
        last = ends_at >= self._plan.until
        day.rollups.extend(self._figures.take(ends_at + (HOUR if last else 0)))
        day.fenced, self.fates.fenced[:] = list(self.fates.fenced), []
        return day

    def _event(self, day: Day, at: int) -> None:
        chance, customer = self._plan.chance, self._plan.customer(at)
        event_type = customer[0].types[int(chance.random() * 4)]
        id_ = _uuid7(at, chance.getrandbits(74))
        payload = _payload(event_type, self.position)
        key_id, sealed = self._keyring.seal_payload(
            payload, event_id=UUID(bytes=id_), content_type=_JSON, event_type=event_type
        )
        self.position += 1
        key = NULL
        if chance.random() < _KEYED:
            key = text(f"{event_type.partition('.')[0]}-{self.position}")
        day.events.append(row(
            uuid(id_), text(event_type), text(_JSON), integer(len(payload)), key, text(_NODE),
            text("producer"), moment(at),
        ))  # fmt: skip
        day.payloads.append(row(uuid(id_), text(key_id), raw(sealed)))
        if key is not NULL:
            day.keys.append(row(key, uuid(id_)))
        event = uuid(id_) + text(event_type) + bigint(self.position)
        sealed_at = at + 4000 + int(chance.random() * 26_000)
        for to in customer:
            if event_type in to.types and _is_there(to, at):
                one = self._live(to, at, sealed_at=sealed_at, key_id=key_id)
                day.trail.extend(one.trail)
                day.deliveries.append(
                    one.as_row(event, self._fields[to.number], max_attempts=to.max_attempts)
                )

    def _live(self, to: Subscription, at: int, *, sealed_at: int, key_id: str) -> Life:
        id_ = _uuid7(sealed_at, self._plan.chance.getrandbits(74))
        one = Life(id_, to.number, self._figures, until=self._plan.until)
        worker = self.fates.worker_at(sealed_at)
        one.receive(at, node=_NODE, sealed_at=sealed_at, worker=worker, key_id=key_id)
        self.fates.live(one, to)
        return one


def _copy_day(conn: Connection[Any], day: Day) -> None:
    with conn.transaction():
        copy(conn, "webhook_events", _EVENTS, day.events)
        copy(conn, "webhook_payloads", "event_id key_id sealed", day.payloads)
        copy(conn, "webhook_idempotency_keys", "key event_id", day.keys)
        copy(conn, "webhook_deliveries", history_rows.COLUMNS, day.deliveries)
        copy(conn, "webhook_delivery_attempts", history_rows.TRAIL_COLUMNS, day.trail)
        copy(conn, "webhook_fenced_writes", FENCED_COLUMNS, day.fenced)
        copy(conn, "webhook_rollups", ROLLUP_COLUMNS, day.rollups)


@contextmanager
def bulk(conn: Connection[Any]) -> Iterator[None]:
    """Build the lists' indexes once, afterwards, and let deliveries begin in any state meanwhile.

    Everything else stays: keys, checks, the trail's own guards. Only the trigger that wants each
    delivery to begin at its beginning is off, for these begin where their trails have brought them.
    """
    indexes = conn.execute(
        "SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i"
        " WHERE i.indrelid = 'webhook_deliveries'::regclass AND NOT i.indisunique"
    ).fetchall()
    trigger = "ALTER TABLE webhook_deliveries {} TRIGGER webhook_deliveries_legal_start"
    for name, _ in indexes:
        conn.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(*name.split("."))))
    conn.execute(trigger.format("DISABLE"))
    try:
        yield
    finally:
        conn.execute(trigger.format("ENABLE ALWAYS"))
        conn.execute("SET maintenance_work_mem = '1GB'")
        for _, statement in indexes:
            conn.execute(statement)


def _is_there(to: Subscription, at: int) -> bool:
    return to.created_at <= at and (to.removed_at is None or at < to.removed_at)


def _uuid7(at: int, luck: int) -> bytes:
    high, low = luck >> 62, luck & (1 << 62) - 1
    whole = at // 1000 << 80 | 7 << 76 | high << 64 | 2 << 62 | low
    return whole.to_bytes(16, "big")


def _payload(event_type: str, number: int) -> bytes:
    return json.dumps({
        "type": event_type, "number": number, "amount": number * 7919 % 100_000,
        "currency": "EUR", "lines": [{"sku": f"A-{number % 997}", "quantity": number % 9 + 1}],
        "note": "as agreed on the telephone " * (number % 5),
    }).encode()  # fmt: skip
