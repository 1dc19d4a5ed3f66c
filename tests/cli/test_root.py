"""What holds for every command: help with examples, errors of one line, exit statuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from commands import Commands
from fencepost import __version__
from fencepost.cli.root import COMMANDS, cli

NAMED = (
    "demo up migrate worker dashboard publish subscription delivery dlq event user token doctor"
    " keys stats bench"
)


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli)
    for name in COMMANDS:
        found = cli.get_command(context, name)
        assert found is not None
        yield name, found
        if isinstance(found, click.Group):
            yield from ((f"{name} {sub}", one) for sub, one in found.commands.items())


def test_the_commands_are_those_that_are_promised() -> None:
    assert sorted(COMMANDS) == sorted(NAMED.split())


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_every_command_says_what_it_is_for_and_how_it_is_used(name: str) -> None:
    result = CliRunner().invoke(cli, [*name.split(), "--help"])
    assert result.exit_code == 0
    found = dict(commands())[name]
    assert found.help
    if not isinstance(found, click.Group):
        assert f"fencepost {name}" in result.stdout.partition("Examples:")[2]
    assert all(option.help for option in found.params if isinstance(option, click.Option)), (
        "an option without help"
    )


@pytest.mark.parametrize("name", [name for name, one in commands() if isinstance(one, click.Group)])
def test_a_group_alone_shows_its_help_as_wrong_usage(name: str) -> None:
    result = CliRunner().invoke(cli, [name])
    assert result.exit_code == 2
    assert f"Usage: cli {name}" in result.stderr


def test_listings_and_shows_take_json() -> None:
    for name, one in commands():
        if name.rpartition(" ")[2] in {"list", "show", "stats", "doctor"}:
            assert "as_json" in {option.name for option in one.params}, name


def test_version_and_unknown_commands(fencepost: Commands) -> None:
    assert fencepost.run("--version").stdout == f"fencepost {__version__}\n"
    assert "No such command 'verify'" in fencepost.run("verify", status=2).stderr
    assert "fencepost delivery --help" in fencepost.run(
        "delivery", "nope", status=2
    ).stderr.replace("cli ", "fencepost ")


def test_without_the_extra_one_line_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['click'] = None\n"
        "from fencepost.cli import main\nsys.argv = ['fencepost', 'up']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "pip install 'fencepost[server]'" in done.stderr


def test_help_needs_no_database_and_none_of_the_heavy_packages() -> None:
    code = (
        "import sys; from fencepost.cli import main\nsys.argv = ['fencepost', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert not {'sqlalchemy', 'alembic', 'flask', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_list_that_nobody_reads_to_its_end_is_no_error(fencepost: Commands) -> None:
    env = fencepost.environ(fencepost.db_url)
    line = f"{sys.executable} -m fencepost subscription list --json | true"
    done = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
