"""Everything the first version needs, on an empty schema.

Revision ID: 0001
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import op

from fencepost.store import guards

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SQL = Path(__file__).parent.parent / "sql"


def upgrade() -> None:
    """Make tables, guards, partitions, doors and rights."""
    connection: Any = op.get_bind().connection.driver_connection

    def run(name: str) -> None:
        connection.execute((SQL / name).read_text(encoding="utf-8"))

    connection.execute("SET LOCAL lock_timeout = '2s'")
    run("0001_tables.sql")
    run("0001_guards.sql")
    for statement in guards.statements():
        connection.execute(statement)
    run("0001_partitions.sql")
    run("0001_publish.sql")
    run("0001_roles.sql")
    connection.execute("SELECT webhook_ensure_partitions()")
