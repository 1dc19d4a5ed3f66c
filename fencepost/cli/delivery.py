"""``fencepost delivery``: look at deliveries, send one again, give one up."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

import click

from fencepost.cli.described import Group
from fencepost.cli.filtering import (
    page_options,
    print_deliveries,
    scope_of,
    scope_options,
    state_option,
)
from fencepost.cli.output import cell, json_option, print_facts, print_json
from fencepost.cli.session import actor, session
from fencepost.model import Delivery
from fencepost.objects import delivery_json, trail_json
from fencepost.segments import SegmentKind
from fencepost.store.operators import discard_delivery, replay_delivery
from fencepost.store.stories import read_story
from fencepost.timeline import Timeline
from fencepost.timeline_text import as_text, format_duration

_REASON = click.option("--reason", metavar="TEXT", help="Why; shown in its timeline.")
_ID = click.argument("delivery_id", metavar="ID", type=click.UUID)


@click.group("delivery", cls=Group)
def command() -> None:
    """Look at deliveries and their timelines; send one again, or give it up."""


@command.command(
    "list",
    examples=(
        "fencepost delivery list --subscription shop --state retried",
        "fencepost delivery list --event-type 'invoice.*' --from -1h --error timeout --json",
    ),
)
@state_option
@scope_options
@page_options
@json_option
def list_(limit: int, after: str | None, before: str | None, *, as_json: bool, **of: Any) -> None:  # noqa: ANN401 - options
    """List deliveries, the newest first."""
    with session() as at:
        scope = scope_of(at, of)
        print_deliveries(at, scope, limit=limit, after=after, before=before, as_json=as_json)


@command.command("show", examples=("fencepost delivery show 01940c4e-6a53-7c1b-b3c8-0a4d1c2b3e4f",))
@_ID
@json_option
def show(delivery_id: UUID, *, as_json: bool) -> None:
    """Tell a delivery's story: every state and fact, and where the time went."""
    with session(is_snapshot=True) as at:
        story = read_story(at.conn, delivery_id)
    found, timeline, subscription = story.delivery, story.timeline, story.about.subscription
    if as_json:
        print_json({**delivery_json(found), "timeline": trail_json(timeline, story.explanation)})
        return
    print_facts(
        {
            "delivery": found.id,
            "event": f"{found.event_id} ({found.event_type})",
            "to": f"{subscription.name} ({subscription.endpoint_masked})",
            "state": _state(found),
            "received": found.created_at,
            "next attempt": found.next_attempt_at,
            "why": story.explanation.state,
            "next": story.explanation.next,
        }
    )
    for cause in story.explanation.causes:
        click.echo(f"- {cell(cause)}")
    click.echo()
    for line in as_text(timeline.rows, timeline.fenced):
        click.echo(line)
    click.echo()
    click.echo(_where_the_time_went(timeline))


def _state(found: Delivery) -> str:
    used = f"{found.attempt_count} attempt{'' if found.attempt_count == 1 else 's'}"
    why = f", {found.dead_reason}" if found.dead_reason else ""
    return f"{found.current_state} after {used}{why}"


def _where_the_time_went(timeline: Timeline) -> str:
    spent: Counter[str] = Counter()
    for segment in timeline.segments:
        if segment.kind is not SegmentKind.FENCED:
            spent[segment.kind.replace("_", " ")] += segment.duration_ms
    parts = [
        f"{kind} {format_duration(ms)} ({ms / timeline.total_ms:.0%})"
        for kind, ms in spent.most_common()
        if ms
    ]
    return f"{format_duration(timeline.total_ms)} in all: {', '.join(parts) or 'nothing'}"


@command.command(
    "replay",
    examples=("fencepost delivery replay 01940c4e-6a53-7c1b-b3c8-0a4d1c2b3e4f --reason mended",),
)
@_ID
@_REASON
@json_option
def replay(delivery_id: UUID, reason: str | None, *, as_json: bool) -> None:
    """Send a delivery again: one that waits for a retry now, a finished one from the start.

    It keeps its ids, so a receiver that deduplicates on webhook-id acts on it only if it has not
    before.
    """
    with session() as at:
        found = replay_delivery(at.conn, delivery_id, actor=actor(), reason=reason)
    _say(found, "is due now; a worker sends it", as_json=as_json)


@command.command(
    "discard",
    examples=("fencepost delivery discard 01940c4e-6a53-7c1b-b3c8-0a4d1c2b3e4f --reason obsolete",),
)
@_ID
@_REASON
@json_option
def discard(delivery_id: UUID, reason: str | None, *, as_json: bool) -> None:
    """Give a delivery up: it is not sent any more, and bulk replays pass over it."""
    with session() as at:
        found = discard_delivery(at.conn, delivery_id, actor=actor(), reason=reason)
    _say(found, "is given up; it stays in the DLQ", as_json=as_json)


def _say(found: Delivery, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(delivery_json(found))
    else:
        click.echo(f"{found.id} {what}.")
