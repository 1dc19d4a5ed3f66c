"""Run the revisions on the connection that ``fencepost.store.migrate`` hands over."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=None,
    version_table="fencepost_schema_version",
    version_table_schema=context.config.attributes["schema"],
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
