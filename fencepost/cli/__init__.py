"""The command line: ``fencepost COMMAND``."""

from __future__ import annotations

import sys
from typing import Final

_EXTRA: Final = frozenset(
    {"alembic", "argon2", "click", "flask", "gunicorn", "psycopg_pool", "requests", "rich"}
    | {"sqlalchemy"}
)


def main() -> None:
    """Run the command line, or say in one line what is not installed."""
    try:
        from fencepost.cli.root import cli  # noqa: PLC0415 - it needs the extra

        cli(prog_name="fencepost")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(
            f"fencepost: the command line needs the package {error.name}:"
            " pip install 'fencepost[server]'\n"
        )
        raise SystemExit(1) from None
