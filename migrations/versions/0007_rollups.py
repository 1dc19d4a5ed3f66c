"""Figures by the minute, kept by the worker.

Figures begin with this revision: what the trail held before is not counted.

Locks: ACCESS EXCLUSIVE on the trail for catalog changes, and SHARE while an index is built that
reads it once: writers wait, about ten seconds for ten gigabytes.

Revision ID: 0007
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SQL = Path(__file__).parent.parent / "sql"


def upgrade() -> None:
    """Add the figures, and what finds the rows that are not in them yet."""
    connection: Any = op.get_bind().connection.driver_connection
    connection.execute("SET LOCAL lock_timeout = '2s'")
    connection.execute((SQL / "0007_rollups.sql").read_text(encoding="utf-8"))
