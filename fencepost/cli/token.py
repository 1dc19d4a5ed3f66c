"""``fencepost token``: how programs use the HTTP API."""

from __future__ import annotations

from datetime import timedelta

import click

from fencepost.cli.described import Group
from fencepost.cli.output import json_option, print_json
from fencepost.cli.session import actor, session
from fencepost.store.people import ROLES
from fencepost.store.tokens import create_token


@click.group("token", cls=Group)
def command() -> None:
    """Make tokens for programs that use the HTTP API."""


@command.command(
    "create",
    examples=(
        "fencepost token create ci --role viewer --days 30",
        "TOKEN=$(fencepost token create shop --role operator)",
    ),
)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    required=True,
    help="viewer reads, operator publishes and replays too, admin configures.",
)
@click.option("--days", type=click.IntRange(1, 3650), help="Until it expires; otherwise never.")
@json_option
def create(name: str, role: str, days: int | None, *, as_json: bool) -> None:
    """Make a token for the program NAME and print it: it is not shown again.

    Programs send it as `Authorization: Bearer TOKEN`.
    """
    life = None if days is None else timedelta(days=days)
    with session() as at:
        made, text = create_token(at.conn, name, role=role, life=life, actor=actor())
    if as_json:
        print_json({"token": text, "id": str(made.id), "name": made.name, "role": made.role})
    else:
        click.echo(text)
