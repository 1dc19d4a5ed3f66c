"""``fencepost demo``."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from fencepost.cli.access import print_access
from fencepost.cli.described import Command
from fencepost.cli.output import say
from fencepost.cli.running import Running, keep, running
from fencepost.cli.session import actor, open_connection
from fencepost.cli.traffic import Traffic
from fencepost.demo import Receiver, receivers
from fencepost.errors import ConflictError
from fencepost.settings import Settings
from fencepost.store import subscriptions as store
from fencepost.subscription_spec import read_change, read_spec

_PAUSE: Final = 0.5
"""Seconds between two events."""


@click.command("demo", cls=Command, examples=("fencepost demo", "fencepost demo --seconds 30"))
@click.option(
    "--seconds",
    type=click.FloatRange(1),
    metavar="N",
    help="End after N seconds with a summary; exit status 1 unless there was a delivery at once,"
    " one after failures, and a dead letter.",
)
def command(seconds: float | None) -> None:
    """See it work: everything of `fencepost up`, with receivers, failures and traffic.

    Three receivers on this machine: one is well, one is flaky, one is down. Two events a second
    go to them, with delays short enough to watch them fail, back off, arrive, or end in the dead
    letter queue. Ctrl-C stops everything; what was sent stays in FENCEPOST_HOME to be looked at.
    """
    environ = _environ()
    logs = Settings.load(environ).home / "logs"
    say("Starting; the first time takes a few seconds more.")
    with receivers() as found, running(environ, logs=logs) as at:
        if at is None:
            return
        _subscribe(at, found)
        print_access(at, token_name="demo")  # noqa: S106 - its name, not its text
        _print_receivers(found)
        click.echo(f"Logs       {logs}")
        click.echo("Ctrl-C stops everything.")
        traffic = Traffic(at, seconds=seconds)
        keep(at, every=traffic.step, pause=_PAUSE)
        at.drain()  # what was in flight has its outcome by now
        summary = traffic.summary()
    click.echo(summary.in_words())
    if seconds is not None and not summary.has_everything:
        raise click.ClickException("not everything has happened yet; give it more --seconds")


def _environ() -> dict[str, str]:
    """Give the programs' environment: receivers on this machine may be called."""
    environ = dict(os.environ)
    environ.setdefault("FENCEPOST_ALLOW_NETWORKS", "127.0.0.0/8")
    environ.setdefault("FENCEPOST_ALLOW_HTTP", "1")
    if "FENCEPOST_BIND" not in environ and "FENCEPOST_CONFIG" not in environ:
        environ["FENCEPOST_BIND"] = _free_address(Settings.load(environ))
    return environ


def _free_address(settings: Settings) -> str:
    """Give the usual address, or one with a free port where somebody listens there already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.bind.host, settings.bind.port))
        except OSError:
            probe.bind((settings.bind.host, 0))
        return f"{settings.bind.host}:{probe.getsockname()[1]}"


def _print_receivers(found: Sequence[Receiver]) -> None:
    for receiver in found:
        click.echo(f"Receiver   {receiver.behaviour.name} at {receiver.url}")
    down = found[-1]
    click.echo(f"Mend it    curl -X POST {down.mend_url}  then replay its dead letters")


def _subscribe(at: Running, found: Sequence[Receiver]) -> None:
    """Subscribe the receivers, or tell last time's subscriptions their new ports.

    Raises:
        ConflictError: there are others, who would get the demo's events.
    """
    keyring, who = at.settings.endpoint_keyring(), actor()
    allowed: Mapping[str, Any] = {
        "allow_http": at.settings.allow_http,
        "allow_networks": at.settings.allow_networks,
    }
    with open_connection(at.settings, "dashboard") as conn, conn.transaction():
        there = {one.name: one for one in store.list_subscriptions(conn, limit=200).rows}
        strangers = there.keys() - {receiver.behaviour.name for receiver in found}
        if strangers:
            raise ConflictError(
                f"this database has a subscription of its own ({min(strangers)}), which would get"
                " the demo's events; give the demo another folder: FENCEPOST_HOME=/tmp/demo"
            )
        for receiver in found:
            about = receiver.behaviour
            if about.name in there:
                was = store.lock_subscription(conn, there[about.name].id)
                change = read_change({"url": receiver.url}, was, **allowed)
                store.update_subscription(conn, keyring, was.id, change, actor=who)
                continue
            fields = {"name": about.name, "url": receiver.url, **about.terms}
            spec = read_spec({**fields, "event_types": list(about.event_types)}, **allowed)
            store.add_subscription(conn, keyring, spec, actor=who)
