"""How long work shows that it goes on: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fencepost.cli.output import say

_EVERY: Final = 5.0
"""Seconds between two plain lines."""


class Show(Protocol):
    """Shows how many are done by now."""

    def __call__(self, done: int) -> None:
        """Say that so many are done."""


@contextmanager
def progress(what: str, total: int) -> Iterator[Show]:
    """Show the way from 0 to ``total``, on stderr.

    Args:
        what: is being done, as in ``Sending again``.
        total: how many there are.
    """
    if not sys.stderr.isatty():
        yield _plain(what, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)

        def show(done: int) -> None:
            bar.update(task, completed=done)

        yield show


def _plain(what: str, total: int) -> Show:
    said_at = time.monotonic()

    def show(done: int) -> None:
        nonlocal said_at
        now = time.monotonic()
        if done < total and now - said_at < _EVERY:
            return
        said_at = now
        say(f"{what}: {done} of {total}")

    return show
