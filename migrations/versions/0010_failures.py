"""Failures by what was answered, without reading what was delivered.

Locks: SHARE on deliveries while four indexes are built, each of which reads the table once: writers
wait, about twenty seconds for ten million deliveries, a million of them failures. ACCESS EXCLUSIVE
for the drop of the two that are replaced.

Revision ID: 0010
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

SQL = Path(__file__).parent.parent / "sql"


def upgrade() -> None:
    """Add the indexes of failures, and let those of dead letters say what was answered."""
    connection: Any = op.get_bind().connection.driver_connection
    connection.execute("SET LOCAL lock_timeout = '2s'")
    connection.execute((SQL / "0010_failures.sql").read_text(encoding="utf-8"))
