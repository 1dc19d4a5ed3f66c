"""``fencepost migrate``."""

from __future__ import annotations

import click

from fencepost.cli.described import Command
from fencepost.cli.schema import prepare
from fencepost.embedded import database
from fencepost.settings import Settings


@click.command(
    "migrate",
    cls=Command,
    examples=(
        "fencepost migrate",
        "FENCEPOST_DATABASE_URL=postgresql://owner@db/app fencepost migrate",
    ),
)
def command() -> None:
    """Bring the database to this version's schema.

    Makes roles, tables and functions where they are missing, and tells the database
    FENCEPOST_REQUIRE_SEALED and FENCEPOST_MAX_PAYLOAD_BYTES; running it again is harmless. The
    login must own the database and may need CREATEROLE, once. Workers and dashboards of the
    release before go on working meanwhile.
    """
    with database(Settings.load()) as settings:
        revision = prepare(settings)
    click.echo(f"The schema {settings.schema} is at {revision}.")
