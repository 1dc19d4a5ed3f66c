"""The doorbell's mark becomes a sequence, which no snapshot hides.

Locks: ACCESS EXCLUSIVE on the doorbell's one row, for the length of a catalog change.

Revision ID: 0003
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SQL = Path(__file__).parent.parent / "sql"


def upgrade() -> None:
    """Replace the doorbell's table."""
    connection: Any = op.get_bind().connection.driver_connection
    connection.execute("SET LOCAL lock_timeout = '2s'")
    connection.execute((SQL / "0003_doorbell.sql").read_text(encoding="utf-8"))
