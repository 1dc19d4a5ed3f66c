"""Bulk replays by subscription, and counts of what became of them.

A replay that has not ended yet ends as FAILED: it has no parts to go on with. Draft it again.

Locks: ACCESS EXCLUSIVE on replays and SHARE ROW EXCLUSIVE on deliveries, for catalog changes.

Revision ID: 0008
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

SQL = Path(__file__).parent.parent / "sql"


def upgrade() -> None:
    """Add the parts, the counts, and the trigger that feeds them."""
    connection: Any = op.get_bind().connection.driver_connection
    connection.execute("SET LOCAL lock_timeout = '2s'")
    connection.execute((SQL / "0008_replays.sql").read_text(encoding="utf-8"))
