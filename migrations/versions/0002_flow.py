"""Limits that hold over all workers, and ordered subscriptions.

Locks: ACCESS EXCLUSIVE on deliveries and subscriptions for catalog changes, and SHARE on
deliveries while the two partial indexes are built: they hold few rows, and read the table once.

Revision ID: 0002
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SQL = Path(__file__).parent.parent / "sql"


def upgrade() -> None:
    """Add the flow rows, the order and their indexes."""
    connection: Any = op.get_bind().connection.driver_connection
    connection.execute("SET LOCAL lock_timeout = '2s'")
    connection.execute((SQL / "0002_flow.sql").read_text(encoding="utf-8"))
