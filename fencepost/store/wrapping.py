"""Which key wraps what is sealed, and wrapping it under another while everything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from fencepost import sealing
from fencepost.errors import KeyUnavailableError, UndecryptableError
from fencepost.keyring import Keyring, mac_key_id
from fencepost.store.queries import load

_SQL = load("wrapping.sql")

_KEYS: Final = "FENCEPOST_KEYS"
_ENDPOINT_KEYS: Final = "FENCEPOST_ENDPOINT_KEYS"
_LOWEST: Final = UUID(int=0)
_BATCH: Final = 200
_BATCH_OF_COUNTING: Final = 5_000


@dataclass(frozen=True, slots=True)
class Sealed:
    """The head of something sealed.

    Attributes:
        id: of its row; of a fingerprint the idempotency key.
        part: what else belongs to its place: a secret's subscription, a response's attempt.
        head: its first bytes.
    """

    id: UUID | str
    part: UUID | int | None
    head: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of what is sealed.

    Attributes:
        name: as people read it.
        setting: where its keys are set.
        read: statement that reads a batch.
        write: statement that replaces the heads of a batch; None: it cannot be wrapped anew.
        context: what it is and whose, as it was sealed; None for payloads.
        key_id_of: reads its key from its head.
        first: below every id.
    """

    name: str
    setting: str
    read: LiteralString
    write: LiteralString | None = None
    context: Callable[[Sealed], tuple[str, ...]] | None = None
    key_id_of: Callable[[bytes], str] = sealing.key_id_of
    first: UUID | str = _LOWEST


FINGERPRINTS: Final = Kind(
    "idempotency keys", _KEYS, _SQL.read_fingerprints, key_id_of=mac_key_id, first=""
)

KINDS: Final = (
    Kind("payloads", _KEYS, _SQL.read_payloads, _SQL.rewrap_payloads),
    Kind(
        "endpoint URLs",
        _ENDPOINT_KEYS,
        _SQL.read_endpoints,
        _SQL.rewrap_endpoints,
        lambda row: ("endpoint", str(row.id)),
    ),
    Kind(
        "headers",
        _ENDPOINT_KEYS,
        _SQL.read_headers,
        _SQL.rewrap_headers,
        lambda row: ("headers", str(row.id)),
    ),
    Kind(
        "signing secrets",
        _ENDPOINT_KEYS,
        _SQL.read_secrets,
        _SQL.rewrap_secrets,
        lambda row: ("signing-secret", str(row.part), str(row.id)),
    ),
    Kind(
        "responses",
        _ENDPOINT_KEYS,
        _SQL.read_responses,
        _SQL.rewrap_responses,
        lambda row: ("response", str(row.id), str(row.part)),
    ),
)
"""All that can be wrapped anew."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of a batch.

    Attributes:
        done: how many were wrapped anew.
        failures: why others could not be, and how many.
    """

    done: int
    failures: Counter[str]


def count_by_key(conn: Connection[Any], kind: Kind) -> Counter[str | None]:
    """Count what each key wraps; None stands for what is damaged or of a newer form.

    It reads every row, some thousands at a time.
    """
    counts: Counter[str | None] = Counter()
    for rows in _batches(conn, kind, _BATCH_OF_COUNTING):
        counts.update(_key_id(kind, row.head) for row in rows)
    return counts


def rewrap(
    conn: Connection[Any], ring: Keyring, kind: Kind, *, batch: int = _BATCH
) -> Iterator[Batch]:
    """Wrap everything of a kind under the ring's first key, and tell of each batch.

    A batch is one statement, which replaces only what is still as it was read: programs go
    on beside it, and one that is killed is run again.

    Args:
        conn: in autocommit, with the owner's rights.
        ring: opens what is wrapped, and wraps it anew.
        kind: one of ``KINDS``.
        batch: how many at a time.
    """
    if kind.write is None:
        raise ValueError(f"{kind.name} cannot be wrapped anew")
    for rows in _batches(conn, kind, batch):
        failures: Counter[str] = Counter()
        anew: list[tuple[Sealed, bytes]] = []
        for row in rows:
            if _key_id(kind, row.head) == ring.key_ids[0]:
                continue
            try:
                anew.append((row, _wrap(ring, kind, row)))
            except (KeyUnavailableError, UndecryptableError) as error:
                failures[str(error)] += 1
        done = 0
        if anew:
            params = {
                "key_id": ring.key_ids[0],
                "ids": [row.id for row, _ in anew],
                "parts": [row.part for row, _ in anew],
                "was": [row.head for row, _ in anew],
                "heads": [head for _, head in anew],
            }
            done = conn.execute(kind.write, params).rowcount
        yield Batch(done, failures)


def _batches(conn: Connection[Any], kind: Kind, most: int) -> Iterator[list[Sealed]]:
    after: dict[str, object] = {"id": kind.first, "part": 0}
    while True:
        with conn.cursor(row_factory=class_row(Sealed), binary=True) as cur:
            rows = cur.execute(kind.read, {**after, "most": most}).fetchall()
        if not rows:
            return
        yield rows
        after = {"id": rows[-1].id, "part": rows[-1].part}


def _wrap(ring: Keyring, kind: Kind, row: Sealed) -> bytes:
    if kind.context is not None:
        return ring.rewrap(row.head, context=kind.context(row))
    return ring.rewrap_payload(row.head, event_id=UUID(str(row.id)))[1]


def _key_id(kind: Kind, head: bytes) -> str | None:
    try:
        return kind.key_id_of(head)
    except (KeyUnavailableError, UndecryptableError):
        return None
