"""The figures of the last minutes by their time.

Locks: SHARE on the rollups while they are read once, about a second for each million; the worker
that writes them waits.

Revision ID: 0012
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

SQL = Path(__file__).parent.parent / "sql"


def upgrade() -> None:
    """Add the index."""
    connection: Any = op.get_bind().connection.driver_connection
    connection.execute("SET LOCAL lock_timeout = '2s'")
    connection.execute((SQL / "0012_minutes.sql").read_text(encoding="utf-8"))
