"""Commands whose help ends with examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click


class _WithExamples:
    examples: Sequence[str] = ()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples below everything else."""
        del ctx
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


class Command(_WithExamples, click.Command):
    """A command that shows how it is used.

    Args:
        examples: whole command lines, as they would be typed.
        options: what ``click.Command`` takes.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*args, **options)
        self.examples = examples


class Group(_WithExamples, click.Group):
    """A group of such commands."""

    command_class = Command

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*args, **options)
        self.examples = examples
