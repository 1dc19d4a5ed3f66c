"""How commands print: tables on a terminal, aligned plain lines elsewhere, JSON on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fencepost.moments import format_moment

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Give a command its ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, as the API gives it.")(
        command
    )


def print_json(value: object) -> None:
    """Print a value as JSON, for programs."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under their headings."""
    texts = [[cell(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        table = Table(*columns, box=None, pad_edge=False, header_style="bold")
        for row in texts:
            table.add_row(*(Text(text, overflow="fold") for text in row))
        Console().print(table)
        return
    lines = [[column.upper() for column in columns], *texts]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def print_facts(facts: Mapping[str, object]) -> None:
    """Print names and values, one a line, without those that are None."""
    shown = {name: cell(value) for name, value in facts.items() if value is not None}
    width = max(map(len, shown), default=0)
    for name, text in shown.items():
        click.echo(f"{name:<{width}}  {text}")


def cell(value: object) -> str:
    """Word one value; nothing in it can break the line or drive the terminal."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return format_moment(value)
    if isinstance(value, tuple | list):
        return ", ".join(map(cell, value)) or "-"
    text = str(value)
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def say(line: str) -> None:
    """Tell the person how it goes; on stderr, so that what is printed stays clean."""
    click.echo(line, err=True)
