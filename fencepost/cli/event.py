"""``fencepost event``: look at events."""

from __future__ import annotations

from uuid import UUID

import click

from fencepost.cli.described import Group
from fencepost.cli.output import json_option, print_facts, print_json, print_table
from fencepost.cli.session import session
from fencepost.objects import event_json
from fencepost.store.deliveries import list_of_event
from fencepost.store.events import get_event
from fencepost.store.subscriptions import get_subscription


@click.group("event", cls=Group)
def command() -> None:
    """Look at an event and what became of it."""


@command.command("show", examples=("fencepost event show 01940c4e-6a53-7c1b-b3c8-0a4d1c2b3e4f",))
@click.argument("event_id", metavar="ID", type=click.UUID)
@json_option
def show(event_id: UUID, *, as_json: bool) -> None:
    """Show an event, without its payload, and its deliveries."""
    with session(is_snapshot=True) as at:
        found = get_event(at.conn, event_id)
        deliveries = list_of_event(at.conn, event_id)
        names = {
            one.subscription_id: get_subscription(
                at.conn, one.subscription_id, with_removed=True
            ).name
            for one in deliveries
        }
    if as_json:
        print_json(event_json(found, deliveries))
        return
    print_facts(
        {
            "event": found.id,
            "type": found.event_type,
            "content": f"{found.content_type}, {found.payload_bytes} bytes",
            "idempotency key": found.idempotency_key,
            "published": found.created_at,
            "taken in by": found.node,
            "payload erased": found.erased_at,
        }
    )
    click.echo()
    if not found.is_fanned_out:
        click.echo("Not fanned out yet: a worker does that.")
    elif not deliveries:
        click.echo("No subscription listened to it.")
    else:
        print_table(
            ("delivery", "state", "attempts", "last answer", "subscription"),
            [
                (one.id, one.current_state, one.attempt_count, one.last_status or one.last_error,
                 names[one.subscription_id])
                for one in deliveries
            ],
        )  # fmt: skip
