"""Every test here runs a whole installation, and has a browser if it wants one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from installation import Fencepost


@pytest.fixture
def fencepost(db_url: str, superuser_url: str, environ: Any, tmp_path: Path) -> Iterator[Fencepost]:
    """An installation with nothing started."""
    with psycopg.connect(superuser_url, autocommit=True) as db, ExitStack() as stack:
        yield Fencepost(environ(db_url), tmp_path, db, stack)
    for log in tmp_path.glob("*.log"):
        assert "Traceback" not in log.read_text(), f"{log.name}: {log.read_text()[-4000:]}"
