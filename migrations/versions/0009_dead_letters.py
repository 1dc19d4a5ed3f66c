"""Dead letters by what they died of, and bulk discards.

Locks: SHARE on deliveries while an index is built that reads the table once: writers wait, about
ten seconds for ten gigabytes.

Revision ID: 0009
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

SQL = Path(__file__).parent.parent / "sql"


def upgrade() -> None:
    """Add the counts and what they are counted by, and the bulk discards."""
    connection: Any = op.get_bind().connection.driver_connection
    connection.execute("SET LOCAL lock_timeout = '2s'")
    connection.execute((SQL / "0009_dead_letters.sql").read_text(encoding="utf-8"))
