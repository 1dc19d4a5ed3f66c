"""``fencepost user``: who may log in to the dashboard."""

from __future__ import annotations

import sys

import click

from fencepost.cli.described import Group
from fencepost.cli.session import actor, session
from fencepost.passwords import SHORTEST, hash_password
from fencepost.store.people import ROLES, add_user


@click.group("user", cls=Group)
def command() -> None:
    """Say who may log in to the dashboard, and what they may do there."""


@command.command(
    "add",
    examples=(
        "fencepost user add dana --role operator",
        "pass show fencepost/dana | fencepost user add dana --role admin --password-stdin",
    ),
)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    required=True,
    help="viewer looks, operator replays and discards too, admin configures.",
)
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
def add(name: str, role: str, *, password_stdin: bool) -> None:
    """Add the user NAME; the password is asked for, at least 12 characters of it."""
    password_hash = hash_password(_password(from_stdin=password_stdin))
    with session() as at:
        user = add_user(at.conn, name, password_hash=password_hash, role=role, actor=actor())
    click.echo(f"Added {user.name}, {user.role}.")


def _password(*, from_stdin: bool) -> str:
    """Get a password without its ever being in an argument, where others could read it."""
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise click.UsageError("no terminal to ask for the password: pipe it in, --password-stdin")
    return str(
        click.prompt(
            f"Password (at least {SHORTEST} characters)",
            hide_input=True,
            confirmation_prompt=True,
            err=True,
        )
    )
