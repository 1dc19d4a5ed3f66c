"""How a command brings the database to what this version and these settings need."""

from __future__ import annotations

from fencepost.cli.session import open_connection
from fencepost.settings import Settings
from fencepost.store import publishing
from fencepost.store.migrate import migrate


def prepare(settings: Settings) -> str:
    """Migrate, and tell the producers' doors their limits; give the revision.

    Args:
        settings: of a database that answers.
    """
    if settings.database_url is None:
        raise ValueError("a database that answers has a URL")
    revision = migrate(settings.database_url, settings.schema)
    with open_connection(settings, "owner") as conn, conn.transaction():
        publishing.configure(
            conn,
            require_sealed=settings.require_sealed,
            max_payload_bytes=settings.max_payload_bytes,
        )
    return revision
