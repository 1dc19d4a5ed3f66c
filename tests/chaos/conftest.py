"""Every trial here kills, stops or starves real processes; they run one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from programs import Program


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "chaos" in item.path.parts:
            item.add_marker(pytest.mark.chaos)


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def start(db_url: str, environ: Any, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start a worker: ``start("a", lease_seconds=2)``, with a fault: ``moment=``, ``action=``."""
    with ExitStack() as stack:

        def begin(
            name: str, *, moment: str | None = None, action: str | None = None, **chosen: object
        ) -> Program:
            log = tmp_path / f"{name}.log"
            more = {} if action is None else {"action": action}
            program = Program(environ(db_url, **chosen), log, name=name, moment=moment, **more)
            return stack.enter_context(program)

        yield begin
