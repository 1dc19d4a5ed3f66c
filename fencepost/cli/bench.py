"""``fencepost bench``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

import click

from fencepost.bench.database import own_database
from fencepost.bench.figures import Figures, Waits, machine, versions
from fencepost.bench.measure import measure
from fencepost.bench.plan import Plan
from fencepost.bench.receivers import receivers
from fencepost.cli.described import Command
from fencepost.cli.output import json_option, print_facts, print_json, say
from fencepost.cli.progress import progress

_MOST_TROUBLED: Final = 0.9
_SHARE: Final = click.FloatRange(0, _MOST_TROUBLED)


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
    "--deliveries",
    type=click.IntRange(1),
    default=20_000,
    show_default=True,
    help="How many to drain, and how many to publish then.",
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
def command(*, as_json: bool, sleeping: bool, **options: Any) -> None:  # noqa: ANN401 - click's
    """Measure how fast deliveries are on this machine.

    Makes a database of its own (embedded, or on the server that is set), a receiver and workers,
    all of it real and gone afterwards. Three parts: a backlog is drained; as many events are
    published and delivered at once; events come at a steady rate. Figures of different machines
    cannot be compared; figures of one machine can. Exit status 1 when an invariant does not hold.
    """
    plan = Plan(is_sleeping=sleeping, **options)
    if plan.failing + plan.hanging > _MOST_TROUBLED:
        raise click.UsageError("--failing and --hanging: together they take more than 0.9")
    if sleeping and not plan.backlog:
        raise click.UsageError("--sleeping: needs --backlog")
    if plan.transport == "curl" and find_spec("pycurl") is None:
        raise click.UsageError("--transport curl: needs pycurl: pip install 'fencepost[curl]'")
    with own_database(plan, say=say) as db, receivers(plan, db.folder) as to:
        say(f"The receiver ({to.kind}) answers {to.alone_per_second:,.0f} requests/s when alone.")
        figures = measure(db, plan, to, progress)
    if as_json:
        print_json(figures.to_json())
    else:
        _print(figures)
    if figures.broken:
        for rule, rows in figures.broken.items():
            say(f"{rule}: {len(rows)} rows, such as {rows[0]}")
        raise click.ClickException("the run broke what must always hold; its figures mean nothing")


def _print(found: Figures) -> None:
    on, of = machine(), versions()
    print_facts(
        {
            "drained": _number(found.deliveries_per_second, "deliveries/s"),
            "published and delivered": _number(found.published_to_delivered_per_second, "events/s"),
            f"queue wait at {found.steady_rate or 0:,.0f}/s": _waits(found.queue_wait_ms),
            "ingest before that": _waits(found.ingest_ms),
            "processor time, workers": _number(found.worker_cpu_us, "µs per delivery"),
            "processor time, PostgreSQL": _number(found.postgres_cpu_us, "µs per delivery"),
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


def _waits(waits: Waits | None) -> str | None:
    if waits is None:
        return None
    return f"p50 {waits.p50:,.1f} ms, p95 {waits.p95:,.1f} ms, p99 {waits.p99:,.1f} ms"
