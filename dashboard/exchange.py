"""One attempt in full: what was sent, what came back, and how long each step took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from dashboard.content import Content, read_content
from fencepost import signing
from fencepost.model import Delivery, Subscription, TrailRow
from fencepost.records import Event
from fencepost.states import Fact, State
from fencepost.store.reveals import Response
from fencepost.subscription_spec import MASK

_OUTCOMES: Final = frozenset({State.DELIVERED, Fact.FAILED, Fact.LEASE_EXPIRED})
_STEPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "dns_ms": "Name look-up",
        "connect_ms": "Connect",
        "tls_ms": "TLS",
        "first_byte_ms": "First byte",
    }
)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a request, and how long it took."""

    name: str
    label: str
    ms: float


@dataclass(frozen=True, slots=True)
class Exchange:
    """One attempt.

    Attributes:
        number: of the attempt.
        sent: its ATTEMPTED row.
        outcome: the row that says how it ended; None while it is open.
        after: the row that says what followed.
        steps: of the request, as far as the transport knew them.
        ip: the address that was called.
        headers: of the request, with what is secret masked.
        body: of the answer, as far as it was kept and may be seen.
        response: the answer itself; likewise.
    """

    number: int
    sent: TrailRow
    outcome: TrailRow | None
    after: TrailRow | None
    steps: tuple[Step, ...]
    ip: str | None
    headers: tuple[tuple[str, str], ...]
    response: Response | None
    body: Content | None

    @property
    def url(self) -> str:
        """Where it went, masked as in its row."""
        return str((self.sent.detail or {}).get("url") or "")


def read_exchange(
    rows: Sequence[TrailRow],
    number: int,
    *,
    delivery: Delivery,
    event: Event,
    subscription: Subscription,
    response: Response | None,
) -> Exchange:
    """Put together what is known of one attempt.

    Args:
        rows: of the attempt, from its claim on.
        number: of the attempt.
        delivery: whose it is.
        event: what was sent.
        subscription: where it went, as it is set now.
        response: the answer; None where it was not kept, or may not be seen.
    """
    place = next(index for index, row in enumerate(rows) if row.state == State.ATTEMPTED)
    sent, rest = rows[place], rows[place + 1 :]
    outcome = rest[0] if rest and rest[0].state in _OUTCOMES else None
    after = rest[1] if len(rest) > 1 and outcome and outcome.state != State.DELIVERED else None
    detail = (outcome.detail if outcome else None) or {}
    return Exchange(
        number=number,
        sent=sent,
        outcome=outcome,
        after=after,
        steps=tuple(_steps(detail)),
        ip=str(detail["ip"]) if detail.get("ip") else None,
        headers=tuple(_headers(sent, number, delivery, event, subscription)),
        response=response,
        body=read_content(response.body) if response else None,
    )


def _steps(detail: Mapping[str, object]) -> Iterator[Step]:
    for name, label in _STEPS.items():
        ms = detail.get(name)
        if isinstance(ms, int | float):
            yield Step(name, label, ms)


def _headers(
    sent: TrailRow, number: int, delivery: Delivery, event: Event, subscription: Subscription
) -> Iterator[tuple[str, str]]:
    """Rebuild the request's headers; signatures and custom values are not for showing."""
    yield "Content-Type", event.content_type
    yield "Content-Length", str(event.payload_bytes)
    yield "webhook-id", str(event.id)
    yield "webhook-timestamp", str(int(sent.created_at.timestamp()))
    yield signing.header_name(subscription.signature_scheme, subscription.signature_header), MASK
    yield "Fencepost-Delivery", str(delivery.id)
    yield "Fencepost-Attempt", str(number)
    yield "Fencepost-Token", str(sent.fencing_token)
    yield "Fencepost-Event-Type", delivery.event_type
    for name in subscription.header_names:
        yield name, MASK


def headers_to_copy(delivery: Delivery, event: Event, number: int) -> list[tuple[str, str]]:
    """Give the headers that a request sent by hand has besides the signed ones."""
    return [
        ("Content-Type", event.content_type),
        ("Fencepost-Delivery", str(delivery.id)),
        ("Fencepost-Attempt", str(number)),
        ("Fencepost-Event-Type", delivery.event_type),
    ]
