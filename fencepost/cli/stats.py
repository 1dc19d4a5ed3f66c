"""``fencepost stats``."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import click

from fencepost.cli.described import Command
from fencepost.cli.output import json_option, print_facts, print_json, print_table
from fencepost.cli.session import session
from fencepost.errors import InvalidInputError
from fencepost.figures import Stats
from fencepost.filters import DeliveryFilter
from fencepost.objects import stats_json
from fencepost.segments import WaitedFor
from fencepost.store.stats import read_stats
from fencepost.store.subscriptions import find_subscription
from fencepost.timeline_text import format_duration

_COUNTS: Final = {
    "attempts": "attempts",
    "delivered": "delivered",
    "failed": "failed",
    "dead lettered": "dead",
    "replayed": "replayed",
    "discarded": "discarded",
    "lease expiries": "lease_expiries",
    "fenced writes": "fenced",
}
"""How they are shown, and what they are called."""


@click.command(
    "stats",
    cls=Command,
    examples=("fencepost stats", "fencepost stats --subscription shop --from -1h --json"),
)
@click.option("--subscription", metavar="S", help="Name or id; otherwise all.")
@click.option("--from", "since", metavar="T", help="Otherwise 24 hours before the end.")
@click.option("--to", "until", metavar="T", help="Otherwise now.")
@json_option
def command(
    subscription: str | None, since: str | None, until: str | None, *, as_json: bool
) -> None:
    """Count what happened in a window of time, and say how long each stretch took."""
    bounds = {"from": since, "to": until}
    try:
        window = DeliveryFilter.from_params({name: [t] for name, t in bounds.items() if t})
    except InvalidInputError as error:
        raise click.BadParameter(str(error), param_hint=f"--{error.field}") from error
    with session(is_snapshot=True) as at:
        sub = None if subscription is None else find_subscription(at.conn, subscription).id
        found = read_stats(at.conn, sub=sub, since=window.since, until=window.until)
    if as_json:
        print_json(stats_json(found))
    else:
        _print(found)


def _print(found: Stats) -> None:
    standing = ", ".join(f"{count} {state}" for state, count in found.states.items() if count)
    figures = found.figures
    reasons = ", ".join(f"{count} {reason}" for reason, count in figures.dead_by_reason.items())
    print_facts(
        {
            "from": found.window.since,
            "to": found.window.until,
            "as of": found.as_of,
            "deliveries": f"{found.received} ({standing})" if standing else found.received,
            "retry rate": _percent(figures.retry_rate),
            "first try": _percent(figures.first_try_rate),
            **{shown: getattr(figures, name) for shown, name in _COUNTS.items()},
            "dead letters": reasons or None,
        }
    )
    if segments := figures.percentiles():
        waits = [
            replace(one, kind=f"waiting for {one.kind}")
            for one in figures.waits()
            if one.kind != WaitedFor.PAUSED  # held, and there already
        ]
        click.echo()
        print_table(
            ("segment", "count", "p50", "p95", "p99", "longest"),
            [
                (one.kind.replace("_", " "), one.count,
                 *map(format_duration, (one.p50_ms, one.p95_ms, one.p99_ms, one.max_ms)))
                for one in (*segments, *waits)
            ],
        )  # fmt: skip


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.1%}"
