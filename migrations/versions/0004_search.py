"""Idempotency keys in the order of their bytes, so that search finds them by their beginning.

Locks: ACCESS EXCLUSIVE on the idempotency keys while their index is built anew, about a second
for each million of them; publishing with a key waits for it.

Revision ID: 0004
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SQL = Path(__file__).parent.parent / "sql"


def upgrade() -> None:
    """Change the collation of the key."""
    connection: Any = op.get_bind().connection.driver_connection
    connection.execute("SET LOCAL lock_timeout = '2s'")
    connection.execute((SQL / "0004_search.sql").read_text(encoding="utf-8"))
