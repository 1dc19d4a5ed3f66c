"""``fencepost bench``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

import click

from fencepost.bench.database import own_database
from fencepost.bench.figures import Figures, machine, versions
from fencepost.bench.measure import measure
from fencepost.bench.plan import PARTS, Plan
from fencepost.bench.receivers import receivers
from fencepost.bench.trail import Waits
from fencepost.cli.described import Command
from fencepost.cli.output import json_option, print_facts, print_json, say
from fencepost.cli.progress import progress

_MOST_TROUBLED: Final = 0.9
_SHARE: Final = click.FloatRange(0, _MOST_TROUBLED)
_DELIVERIES: Final = {"requests": 20_000, "curl": 80_000}
"""A drain of ten seconds or so."""


@click.command(
    "bench",
    cls=Command,
    examples=(
        "fencepost bench",
        "fencepost bench --transport curl --workers 2",
        "fencepost bench --hanging 0.5 --rate 500 --json",
        "fencepost bench --backlog 1000000 --sleeping",
    ),
)
@click.option(
    "--transport",
    type=click.Choice(["requests", "curl"]),
    default="requests",
    show_default=True,
    help="What sends the requests.",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes."
)
@click.option(
    "--part",
    "parts",
    type=click.Choice(PARTS),
    multiple=True,
    default=PARTS,
    help="What to measure; may be given several times. Otherwise everything.",
)
@click.option(
    "--deliveries",
    type=click.IntRange(1),
    help="How many to drain; half as many are published then. Otherwise what takes some seconds.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1),
    default=5.0,
    show_default=True,
    help="How long the part at a steady rate takes.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    help="Events a second in that part; otherwise half of what was reached before.",
)
@click.option(
    "--payload",
    type=click.IntRange(1, 262_144),
    default=500,
    show_default=True,
    help="Bytes of each event.",
)
@click.option(
    "--response",
    type=click.IntRange(0, 1_000_000),
    default=0,
    show_default=True,
    help="Bytes of each answer's body; 0: status 204.",
)
@click.option(
    "--subscriptions",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="To receivers that are well.",
)
@click.option(
    "--failing", type=_SHARE, default=0.0, help="Share of the events for one that answers 503."
)
@click.option(
    "--hanging", type=_SHARE, default=0.0, help="Share of the events for one that never answers."
)
@click.option("--backlog", type=click.IntRange(0), default=0, help="Deliveries that wait besides.")
@click.option("--sleeping", is_flag=True, help="Those are due tomorrow, and not now.")
@json_option
def command(
    *,
    as_json: bool,
    sleeping: bool,
    deliveries: int | None,
    **options: Any,  # noqa: ANN401 - click's
) -> None:
    """Measure how fast deliveries are on this machine.

    Makes a database of its own (embedded, or on the server that is set), a receiver and workers,
    all of it real and gone afterwards. Three parts: drain, a backlog; published, events that are
    published and delivered at once; steady, events at a rate that leaves room. Figures of different
    machines cannot be compared; figures of one machine can. Exit status 1 when an invariant does
    not hold.
    """
    wanted = deliveries or _DELIVERIES[options["transport"]]
    plan = Plan(is_sleeping=sleeping, deliveries=wanted, **options)
    if plan.failing + plan.hanging > _MOST_TROUBLED:
        raise click.UsageError("--failing and --hanging: together they take more than 0.9")
    if plan.parts == ("steady",) and plan.rate is None:
        raise click.UsageError("--part steady: alone it needs --rate")
    if sleeping and not plan.backlog:
        raise click.UsageError("--sleeping: needs --backlog")
    if plan.transport == "curl" and find_spec("pycurl") is None:
        raise click.UsageError("--transport curl: needs pycurl: pip install 'fencepost[curl]'")
    with own_database(plan, say=say) as db, receivers(plan, db.folder) as to:
        say(f"The receiver ({to.kind}) answers {to.alone_per_second:,.0f} requests/s when alone.")
        figures = measure(db, plan, to, progress)
    if figures.is_limited_by_receiver:
        say("The receiver is hardly faster than that: the figures are its own.")
    if as_json:
        print_json(figures.to_json())
    else:
        _print(figures)
    if figures.broken:
        for rule, rows in figures.broken.items():
            say(f"{rule}: {len(rows)} rows, such as {rows[0]}")
        raise click.ClickException("the run broke what must always hold; its figures mean nothing")


def _print(found: Figures) -> None:
    on, of, drained, steady = machine(), versions(), found.drained, found.steady
    mark = " (the receiver is the limit)" if found.is_limited_by_receiver else ""
    published = found.published_to_delivered_per_second
    print_facts(
        {
            "drained": _number(drained.per_second if drained else None, f"deliveries/s{mark}"),
            "published and delivered": _number(published, f"events/s{mark}"),
            f"queue wait at {steady.rate if steady else 0:,.0f}/s": _waits(
                steady.queue_wait_ms if steady else None
            ),
            "ingest before that": _waits(steady.ingest_ms if steady else None),
            "processor time, workers": _per_delivery(drained.worker_cpu_us if drained else None),
            "processor time, PostgreSQL": _per_delivery(
                drained.postgres_cpu_us if drained else None
            ),
            "processor time, receiver": _per_delivery(drained.receiver_cpu_us if drained else None),
            "memory of a worker": _number(found.worker_rss_mb, "MB at most"),
            "receiver alone": f"{found.receiver_per_second:,.0f} requests/s ({found.receiver})",
            "invariants": "broken" if found.broken else "hold",
            "machine": f"{on['cores']} cores, {on['processor']}, {on['memory_mb']:,} MB",
            "versions": f"PostgreSQL {found.server['version']}, "
            + ", ".join(f"{name} {text}" for name, text in of.items()),
            "PostgreSQL": f"fsync {found.server['fsync']},"
            f" synchronous_commit {found.server['synchronous_commit']}",
        }
    )
    click.echo("\nOne of them, taken at random:")
    for line in found.timeline:
        click.echo(line)


def _number(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:,.0f} {unit}"


def _per_delivery(value: float | None) -> str | None:
    return _number(value, "µs per delivery")


def _waits(waits: Waits | None) -> str | None:
    if waits is None:
        return None
    return f"p50 {waits.p50:,.1f} ms, p95 {waits.p95:,.1f} ms, p99 {waits.p99:,.1f} ms"
