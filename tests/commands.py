"""How tests run commands: in this process, in an environment of the test's own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from click.testing import CliRunner, Result

from fencepost.cli.root import cli


class Environ(Protocol):
    """Makes the environment of a program; see ``environ`` in the tests' conftest."""

    def __call__(self, database_url: str | None = None, **settings: object) -> dict[str, str]: ...


@dataclass(frozen=True)
class Commands:
    """``fencepost …`` against one database."""

    environ: Environ
    db_url: str | None

    def run(self, *args: object, status: int = 0, one_line: bool = True, **options: Any) -> Result:
        """Run a command that must exit with ``status``; an error must be one clear line."""
        result = self.run_quietly(*args, status=status, **options)
        if status and one_line:
            assert result.stderr.startswith("fencepost: "), result.stderr
            assert result.stderr.count("\n") == 1, result.stderr
        return result

    def run_quietly(
        self, *args: object, status: int = 0, stdin: str | bytes | None = None, **settings: object
    ) -> Result:
        """Run one that may fail without a word on stderr; ``settings`` are its environment."""
        env: dict[str, str | None] = {**self.environ(self.db_url, **settings)}
        result = CliRunner().invoke(cli, [str(arg) for arg in args], input=stdin, env=env)
        assert result.exit_code == status, (result.output, result.exception)
        return result

    def json(self, *args: object) -> Any:
        """Run a command with ``--json`` and parse what it printed."""
        return json.loads(self.run(*args, "--json").stdout)
