"""How much each worker gets done, beside its heartbeat.

A worker of the release before goes on beside it: it leaves the new columns empty.

Lock: ACCESS EXCLUSIVE on the table of workers, for a catalog change.

Revision ID: 0011
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

SQL = Path(__file__).parent.parent / "sql"


def upgrade() -> None:
    """Add the two columns."""
    connection: Any = op.get_bind().connection.driver_connection
    connection.execute("SET LOCAL lock_timeout = '2s'")
    connection.execute((SQL / "0011_pace.sql").read_text(encoding="utf-8"))
