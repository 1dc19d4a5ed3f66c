"""From leases to requests: open what is sealed, and set aside what cannot be sent."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection

from fencepost.custom_headers import check_headers
from fencepost.endpoints import check_url
from fencepost.errors import InvalidInputError, KeyUnavailableError, UndecryptableError
from fencepost.keyring import Keyring
from fencepost.model import ErrorClass
from fencepost.settings import Settings
from fencepost.signing import SCHEMES
from fencepost.states import Cause, State
from fencepost.store.leases import Claimed
from fencepost.store.sending import SealedEndpoint, SealedPayload, read_endpoints, read_payloads
from fencepost.store.settlements import Settlement

log = logging.getLogger(__name__)

RELEASE_DELAYS = {
    "key_unavailable": timedelta(seconds=30),
    "unsupported": timedelta(seconds=60),
    "paused": timedelta(seconds=5),
    "draining": timedelta(),
}
"""How long a delivery that cannot be sent now is left alone."""

MOST_OPENED = 10_000
"""How many opened endpoints a process remembers; the oldest is forgotten."""

_UNSUPPORTED = "this version cannot prepare it; see its log"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A subscription, opened: where its requests go and what signs them."""

    sealed: SealedEndpoint
    url: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A delivery that can be sent: what it takes, before it is known as attempted."""

    claimed: Claimed
    endpoint: Endpoint
    content_type: str
    body: bytes = field(repr=False)


def refusal(claimed: Claimed, error: ErrorClass, message: str) -> Settlement:
    """Settle a lease whose delivery can never be sent as it stands."""
    return Settlement(
        claimed.lease, State.LEASED, Cause.REFUSE, error=error, message=message, reason=error
    )


def release(claimed: Claimed, reason: str, message: str | None = None) -> Settlement:
    """Settle a lease whose delivery cannot be sent now; no attempt is used."""
    return Settlement(
        claimed.lease,
        State.LEASED,
        Cause.RELEASE,
        delay=RELEASE_DELAYS[reason],
        message=message,
        reason=reason,
    )


class Preparer:
    """Opens payloads and endpoints for a batch of claims.

    Args:
        settings: what URLs are allowed.
        keyring: opens payloads.
        endpoint_keyring: opens URLs, headers and signing secrets.
    """

    def __init__(self, settings: Settings, *, keyring: Keyring, endpoint_keyring: Keyring) -> None:
        self._settings = settings
        self._keyring = keyring
        self._endpoint_keyring = endpoint_keyring
        self._opened: dict[UUID, Endpoint] = {}
        self._told: set[tuple[str | None, str | None]] = set()  # as many as keys and schemes

    def prepare(
        self, conn: Connection[Any], claims: Sequence[Claimed]
    ) -> tuple[list[Prepared], list[Settlement]]:
        """Read and open what a batch needs.

        Returns:
            What can be sent, and the end of the leases of what cannot.
        """
        payloads = read_payloads(conn, {claimed.event_id for claimed in claims})
        endpoints = read_endpoints(conn, {claimed.subscription_id for claimed in claims})
        ready: list[Prepared] = []
        set_aside: list[Settlement] = []
        for claimed in claims:
            try:
                one = self._prepare(
                    claimed, payloads.get(claimed.event_id), endpoints.get(claimed.subscription_id)
                )
            except Exception:  # a row that nobody foresaw must not cost its batch mates
                log.exception("delivery.unprepared delivery=%s", claimed.lease.delivery_id)
                one = release(claimed, "unsupported", _UNSUPPORTED)
            if isinstance(one, Prepared):
                ready.append(one)
            else:
                self._tell_once(one)
                set_aside.append(one)
        return ready, set_aside

    def _tell_once(self, given_back: Settlement) -> None:
        """Log what keeps deliveries waiting for another process, however many they are."""
        what = given_back.reason, given_back.message
        if given_back.cause is Cause.RELEASE and given_back.message and what not in self._told:
            self._told.add(what)
            log.warning("delivery.given_back reason=%s message=%s", *what)

    def _prepare(  # noqa: PLR0911 - one return for each thing that can stand in the way
        self, claimed: Claimed, payload: SealedPayload | None, sealed: SealedEndpoint | None
    ) -> Prepared | Settlement:
        if sealed is None or sealed.is_removed:
            return refusal(claimed, ErrorClass.SUBSCRIPTION_REMOVED, "the subscription was removed")
        if payload is None or payload.sealed is None:
            return refusal(claimed, ErrorClass.PAYLOAD_ERASED, "the payload was erased")
        if sealed.is_paused:
            return release(claimed, "paused")
        if sealed.signature_scheme not in SCHEMES:
            return release(claimed, "unsupported", f"signature scheme {sealed.signature_scheme}")
        try:
            return Prepared(
                claimed,
                self._open(sealed),
                payload.content_type,
                self._keyring.open_payload(
                    payload.sealed,
                    event_id=claimed.event_id,
                    content_type=payload.content_type,
                    event_type=claimed.event_type,
                ),
            )
        except KeyUnavailableError as error:
            return release(claimed, "key_unavailable", str(error))
        except UndecryptableError as error:
            return refusal(claimed, ErrorClass.PAYLOAD_UNDECRYPTABLE, str(error))
        except InvalidInputError as error:
            kind = ErrorClass.INVALID_URL if error.field == "url" else ErrorClass.INVALID_HEADER
            return refusal(claimed, kind, str(error))

    def _open(self, sealed: SealedEndpoint) -> Endpoint:
        """Open an endpoint, or take it from memory when nothing of it has changed.

        URL and headers are judged again by the rules of their creation: the row may
        have been written by hand.
        """
        known = self._opened.get(sealed.id)
        if known is not None and known.sealed == sealed:
            return known
        ring, id_ = self._endpoint_keyring, str(sealed.id)
        url = ring.open(sealed.endpoint_sealed, context=("endpoint", id_)).decode()
        check_url(
            url,
            allow_http=self._settings.allow_http,
            allow_networks=self._settings.allow_networks,
        )
        headers: dict[str, str] = {}
        if sealed.headers_sealed is not None:
            headers = json.loads(ring.open(sealed.headers_sealed, context=("headers", id_)))
            check_headers(headers, signature_header=sealed.signature_header)
        secrets = tuple(
            ring.open(secret, context=("signing-secret", id_, str(secret_id))).decode()
            for secret_id, secret in zip(sealed.secret_ids, sealed.secrets_sealed, strict=True)
        )
        opened = Endpoint(sealed, url, tuple(headers.items()), secrets)
        self._opened.pop(sealed.id, None)
        self._opened[sealed.id] = opened
        if len(self._opened) > MOST_OPENED:
            del self._opened[next(iter(self._opened))]
        return opened


def set_aside_unsupported(claims: Iterable[Claimed]) -> list[Settlement]:
    """Give back a batch that could not be prepared at all, for another worker or a later one."""
    return [release(claimed, "unsupported", _UNSUPPORTED) for claimed in claims]


def set_aside_draining(claims: Iterable[Claimed]) -> list[Settlement]:
    """Give back, unsent, what was claimed just before the worker was told to stop."""
    return [release(claimed, "draining") for claimed in claims]
