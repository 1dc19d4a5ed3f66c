"""Commands against the test's own database."""

from __future__ import annotations

import pytest

from commands import Commands, Environ


@pytest.fixture
def fencepost(environ: Environ, db_url: str) -> Commands:
    return Commands(environ, db_url)
