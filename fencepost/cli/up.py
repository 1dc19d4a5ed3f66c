"""``fencepost up``."""

from __future__ import annotations

import os

import click

from fencepost.cli.access import print_access
from fencepost.cli.described import Command
from fencepost.cli.running import keep, running


@click.command(
    "up",
    cls=Command,
    examples=(
        "fencepost up",
        "FENCEPOST_HOME=/srv/fencepost FENCEPOST_BIND=[::1]:9000 fencepost up",
    ),
)
def command() -> None:
    """Run everything on this machine: database, dashboard and one worker.

    The database is an embedded PostgreSQL in FENCEPOST_HOME, unless FENCEPOST_DATABASE_URL names
    another; its schema is brought up to date first. Prints the dashboard's address, a link for
    one login as admin and an API token. What dies is started again; Ctrl-C or SIGTERM stops
    everything. Other commands work meanwhile in any shell with the same settings.
    """
    with running(os.environ) as at:
        if at is None:
            return
        print_access(at, token_name="up")  # noqa: S106 - its name, not its text
        click.echo("Ctrl-C stops everything.")
        keep(at)
