"""One attempt, phase by phase: prepared, attempted, outgoing, answered, settled."""

from __future__ import annotations

import base64
import json
import logging
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from fencepost import __version__
from fencepost.keyring import Keyring
from fencepost.model import ErrorClass, Outgoing, Reply
from fencepost.signing import sign
from fencepost.states import Cause, State
from fencepost.store.leases import Attempted
from fencepost.store.settlements import Settlement
from worker import hooks
from worker.judge import InFlight, judge, unjudged
from worker.prepare import Prepared
from worker.roster import Roster
from worker.transport.base import Transport

log = logging.getLogger(__name__)

USER_AGENT = f"Fencepost/{__version__}"


def outgoing(prepared: Prepared, attempted: Attempted) -> Outgoing:
    """Build and sign the request; the timestamp is the one of its ATTEMPTED row."""
    claimed, endpoint = prepared.claimed, prepared.endpoint
    timestamp = int(attempted.now.timestamp())
    message_id = str(claimed.event_id)
    signature = sign(
        endpoint.sealed.signature_scheme,
        secrets=endpoint.secrets,
        message_id=message_id,
        timestamp=timestamp,
        body=prepared.body,
        header=endpoint.sealed.signature_header,
    )
    return Outgoing(
        lease=claimed.lease,
        url=endpoint.url,
        headers=(
            ("Content-Type", prepared.content_type),
            ("User-Agent", USER_AGENT),
            ("webhook-id", message_id),
            ("webhook-timestamp", str(timestamp)),
            signature,
            ("Fencepost-Delivery", str(claimed.lease.delivery_id)),
            ("Fencepost-Attempt", str(attempted.attempt_count)),
            ("Fencepost-Token", str(claimed.lease.fencing_token)),
            ("Fencepost-Event-Type", claimed.event_type),
            *endpoint.headers,
        ),
        body=prepared.body,
    )


def unsent(prepared: Prepared, why: str) -> Settlement:
    """Give back an attempt whose row is written and whose request never left."""
    return Settlement(
        prepared.claimed.lease,
        State.ATTEMPTED,
        Cause.RETRY,
        delay=timedelta(),
        error=ErrorClass.LOCAL_ERROR,
        message=f"{why} before the request could leave",
        reason="local_error",
        is_ours=True,
    )


class Sender:
    """Hands requests to the transport and their ends to the settler.

    Args:
        transport: sends them.
        roster: knows which leases were lost meanwhile.
        settle: takes the end of each; never blocks.
        endpoint_keyring: seals what is kept of answers.
        keep_responses: ``none``, ``failures`` or ``all``.
        chance: the jitter of retries.
        report: told how each attempt ended, before ``settle`` is.
        on_free: called when a slot came free.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        roster: Roster,
        settle: Callable[[Settlement], None],
        endpoint_keyring: Keyring,
        keep_responses: str,
        chance: random.Random,
        report: Callable[[InFlight, Settlement], None],
        on_free: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._roster = roster
        self._settle = settle
        self._keyring = endpoint_keyring
        self._keep = keep_responses
        self._chance = chance
        self._report = report
        self._on_free = on_free

    def send(self, prepared: Prepared, attempted: Attempted) -> None:
        """Let one request leave: its ATTEMPTED row is committed."""
        flight = InFlight(prepared, attempted)
        try:
            request = outgoing(prepared, attempted)
            self._transport.send(request, lambda _, reply: self._answered(flight, reply))
        except Exception as error:  # a defect of ours must not cost its batch mates
            log.exception("delivery.unsent delivery=%s", prepared.claimed.lease.delivery_id)
            reply = Reply(
                None, ErrorClass.LOCAL_ERROR, f"could not be sent: {type(error).__name__}"
            )
            self._answered(flight, reply)

    def _answered(self, flight: InFlight, reply: Reply) -> None:
        hooks.reach("answered", flight)
        was_lost = self._roster.hand_over(flight.prepared.claimed.lease)
        try:
            settlement = judge(flight, reply, chance=self._chance, was_lost=was_lost)
        except Exception:  # a policy that nobody foresaw must not keep the lease in the roster
            log.exception("delivery.unjudged delivery=%s", flight.attempted.id)
            settlement = unjudged(flight, reply)
        self._learn(flight, settlement)
        self._report(flight, settlement)
        self._settle(self._with_response(flight, reply, settlement))
        self._on_free()

    def _learn(self, flight: InFlight, settlement: Settlement) -> None:
        """A receiver that is overwhelmed or away gets less, one that answers gets more."""
        if settlement.is_ours or settlement.was_aborted:
            return
        timed_out = settlement.error is ErrorClass.TIMEOUT
        self._roster.learn(
            flight.prepared.claimed.subscription_id,
            failed=timed_out or settlement.cause in (Cause.RETRY, Cause.EXHAUST),
            timed_out=timed_out,
        )

    def _with_response(self, flight: InFlight, reply: Reply, settlement: Settlement) -> Settlement:
        """Add what is to be kept of the answer, sealed."""
        if reply.status is None or self._keep == "none":
            return settlement
        if settlement.cause is Cause.SUCCEED and self._keep != "all":
            return settlement
        kept = {
            "status": reply.status,
            "headers": reply.headers,
            "body": base64.b64encode(reply.body).decode(),
            "is_truncated": reply.body_truncated,
        }
        attempted = flight.attempted
        sealed = self._keyring.seal(
            json.dumps(kept).encode(),
            context=("response", str(attempted.id), str(attempted.attempt_count)),
        )
        return replace(settlement, response=sealed)
