"""``fencepost dashboard``."""

from __future__ import annotations

import os

import click

from fencepost.cli.described import Command
from fencepost.processes import module_argv


@click.command(
    "dashboard",
    cls=Command,
    examples=("fencepost dashboard", "FENCEPOST_BIND=0.0.0.0:8080 fencepost dashboard"),
)
def command() -> None:
    """Run the dashboard and the HTTP API, on FENCEPOST_BIND.

    SIGTERM ends it in order: open requests are answered, live pages told to reconnect.
    """
    argv = module_argv("dashboard")
    os.execv(argv[0], argv)  # noqa: S606 - no shell is the point
