"""Two indexes by which an event finds the subscriptions that want it.

Locks: SHARE on subscriptions, while their few rows are read.

Revision ID: 0006
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

SQL = Path(__file__).parent.parent / "sql"


def upgrade() -> None:
    """Add the function and the indexes."""
    connection: Any = op.get_bind().connection.driver_connection
    connection.execute("SET LOCAL lock_timeout = '2s'")
    connection.execute((SQL / "0006_matching.sql").read_text(encoding="utf-8"))
