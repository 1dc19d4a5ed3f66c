"""How commands ask before they do what cannot be taken back."""

from __future__ import annotations

import sys

import click


def confirm(what: str, answer: str, *, yes: bool, look: str = "") -> None:
    """Let nothing happen before somebody has typed what it happens to.

    Args:
        what: would be done, as in ``discard 3``.
        answer: what has to be typed.
        yes: ``--yes`` was given: nobody is asked.
        look: how to see first what would happen, as in ``look with --dry-run, then``.

    Raises:
        click.UsageError: there is no terminal to ask on.
        click.ClickException: something else was typed.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"no terminal to ask on: {look} add --yes".replace("  ", " "))
    typed = click.prompt(f"Type {answer} to {what}", err=True)
    if str(typed).strip() != answer:
        raise click.ClickException(f"{typed!r} is not {answer}; nothing was changed")
