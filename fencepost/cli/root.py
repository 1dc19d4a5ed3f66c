"""The group of all commands: it loads the one that is asked for, and words every error."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final, NoReturn, cast

import click
import psycopg

from fencepost import __version__
from fencepost.cli.described import Group
from fencepost.errors import FencepostError, InvalidInputError, SettingsError

COMMANDS: Final = {
    "demo": ("demo", "See it work: receivers that fail, traffic, a dashboard."),
    "up": ("up", "Run everything on this machine."),
    "migrate": ("migrate", "Bring the database to this version's schema."),
    "worker": ("worker", "Run workers: they send the deliveries."),
    "dashboard": ("dashboard", "Run the dashboard and the HTTP API."),
    "publish": ("publish", "Publish an event."),
    "subscription": ("subscription", "Say who receives what, and where."),
    "delivery": ("delivery", "Look at deliveries and their timelines; send one again."),
    "dlq": ("dlq", "Work through the dead letters."),
    "event": ("event", "Look at an event and what became of it."),
    "stats": ("stats", "Counts, latencies and retry rates."),
    "user": ("user", "Say who may log in."),
    "token": ("token", "Make tokens for the HTTP API."),
    "keys": ("keys", "Look at the keys that seal, and rotate them."),
    "bench": ("bench", "Measure how fast deliveries are on this machine."),
    "doctor": ("doctor", "Find what is wrong with this installation."),
}
"""Name to module of this package and help line; the module holds it as ``command``."""

_NOT_OUR_SCHEMA: Final = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InvalidSchemaName,
)

FAILED: Final = 1
MISUSED: Final = 2


class Root(Group):
    """Loads commands when they are run, and turns what goes wrong into one line and a status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the names in the order in which people meet them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"fencepost.cli.{COMMANDS[cmd_name][0]}")
        return cast("click.Command", module.command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def main(self, *args: Any, **options: Any) -> NoReturn:  # noqa: ANN401 - click's
        """Run and exit: 0 done, 1 it failed or is not there, 2 wrong usage."""
        options["standalone_mode"] = False
        try:
            sys.exit(super().main(*args, **options) or 0)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(MISUSED)
        except click.UsageError as error:
            where = f" (see: {error.ctx.command_path} --help)" if error.ctx else ""
            _fail(" ".join(error.format_message().split()) + where, MISUSED)
        except click.ClickException as error:
            _fail(error.format_message(), error.exit_code)
        except click.Abort:
            _fail("stopped; what was done before stays done", FAILED)
        except SettingsError as error:  # a fault, a line
            _fail(str(error), MISUSED)
        except InvalidInputError as error:
            _fail(_one_line(error), MISUSED)
        except FencepostError as error:
            _fail(_one_line(error), FAILED)
        except psycopg.Error as error:
            _fail(_reason(error), FAILED)


def _fail(message: str, status: int) -> NoReturn:
    for line in message.splitlines():
        click.echo(f"fencepost: {line}", err=True)
    sys.exit(status)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _reason(error: psycopg.Error) -> str:
    said = " ".join((error.diag.message_primary or str(error)).split())
    if isinstance(error, _NOT_OUR_SCHEMA):
        return f"the schema is not the one this version needs ({said}); run: fencepost migrate"
    return f"the database refused: {said}"


@click.group(
    cls=Root,
    examples=(
        "fencepost demo      # see it work, with receivers that fail",
        "fencepost up        # run it on this machine",
        "fencepost doctor    # find what is wrong",
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="fencepost", message="%(prog)s %(version)s")
def cli() -> None:
    """Webhooks that are never lost, each with its whole timeline.

    Settings are environment variables (FENCEPOST_DATABASE_URL and so on, see the README), or the
    same names in the file that FENCEPOST_CONFIG names.

    Exit status: 0 done, 1 the thing failed or is not there, 2 wrong usage.
    """
