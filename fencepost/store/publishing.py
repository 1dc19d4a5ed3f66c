"""What the database itself knows of the settings, for the doors that are SQL functions."""

from __future__ import annotations

from typing import Any, NamedTuple

from psycopg import Connection
from psycopg.rows import class_row

from fencepost.store.queries import load

_SQL = load("publishing.sql")


class PublishSettings(NamedTuple):
    """As they stand in the database, and hold for every producer."""

    require_sealed: bool
    max_payload_bytes: int


def configure(conn: Connection[Any], *, require_sealed: bool, max_payload_bytes: int) -> None:
    """Write what ``fencepost migrate`` was started with.

    Args:
        conn: as the owner; the caller commits.
        require_sealed: close the SQL function for payloads in clear.
        max_payload_bytes: the largest payload that any door takes.
    """
    conn.execute(
        _SQL.write_publish_settings,
        {"require_sealed": require_sealed, "max_payload_bytes": max_payload_bytes},
    )


def read(conn: Connection[Any]) -> PublishSettings:
    """Read them, as the worker or the dashboard: for ``fencepost doctor`` to compare."""
    with conn.cursor(row_factory=class_row(PublishSettings)) as cursor:
        (found,) = cursor.execute(_SQL.read_publish_settings).fetchall()
    return found
