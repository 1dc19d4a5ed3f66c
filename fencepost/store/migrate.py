"""Bring a database to the schema that this version needs."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import Connection, sql
from sqlalchemy import create_engine, make_url, pool, text

from fencepost.errors import SchemaError
from fencepost.resources import resource
from fencepost.store.pool import errors_as_ours
from fencepost.store.session import is_lent

ROLES = ("fencepost_owner", "fencepost_worker", "fencepost_dashboard", "fencepost_producer")
_LOCK = 0x66656E6365  # "fence": one migration at a time in one database


def migrate(url: str, schema: str = "public") -> str:
    """Create or update everything Fencepost needs in the database; give the revision.

    Roles are made where they are missing, and the login of ``url`` becomes a member of
    each, so that one login is enough for a small set-up. Running it again is harmless.

    Args:
        url: a direct connection (not through a transaction pooler) whose login may
            create roles, or in a database where the four roles exist already.
        schema: where the tables go; made when missing.

    Raises:
        DatabaseUnavailableError: the server does not answer.
        SchemaError: the server is too old, the login lacks a right, or a pooler is in between;
            says which.
    """
    with errors_as_ours(), psycopg.connect(url, autocommit=True) as conn:
        if conn.info.server_version < 150000:  # noqa: PLR2004 - the form libpq gives it in
            raise SchemaError("Fencepost needs PostgreSQL 15 or later.")
        if is_lent(conn):
            raise SchemaError(
                "A migration cannot run through a pooler; set FENCEPOST_DATABASE_URL to the"
                " database's own address for it."
            )
        conn.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        try:
            _prepare(conn, schema)
        except psycopg.errors.InsufficientPrivilege as error:
            raise SchemaError(
                f"The login {conn.info.user!r} may not prepare this database"
                f" ({error.diag.message_primary}); use one with CREATEROLE that owns the database."
            ) from error
        _upgrade(url, schema)
    return head()


def head() -> str:
    """Give the revision that this version needs."""
    found = ScriptDirectory.from_config(_config()).get_current_head()
    if found is None:
        raise SchemaError("The migrations are missing from this installation.")
    return found


def revision(conn: Connection[Any]) -> str | None:
    """Give the revision that the database is at; None when there is none yet."""
    found = conn.execute("SELECT to_regclass('fencepost_schema_version')").fetchone()
    if found is None or found[0] is None:
        return None
    row = conn.execute("SELECT version_num FROM fencepost_schema_version").fetchone()
    return None if row is None else str(row[0])


def check_revision(conn: Connection[Any]) -> None:
    """Refuse to work on a schema that this version does not know.

    Raises:
        SchemaError: it is missing, too old, or newer than this version.
    """
    found, needed = revision(conn), head()
    if found is None:
        raise SchemaError("This database has no Fencepost schema; run `fencepost migrate`.")
    if found < needed:
        raise SchemaError(f"The schema is at {found}, this version needs {needed};"
                          " run `fencepost migrate`.")  # fmt: skip
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if found not in known:
        raise SchemaError(f"The schema is at {found}, newer than this version knows ({needed});"
                          " upgrade Fencepost.")  # fmt: skip


def _prepare(conn: Connection[Any], schema: str) -> None:
    """Make the roles and the schema, as the login itself."""
    for role in ROLES:
        _settle_race(partial(_ensure_role, conn, role))
    owner, others = sql.Identifier(ROLES[0]), sql.SQL(", ").join(map(sql.Identifier, ROLES[1:]))
    place = sql.Identifier(schema)
    exists = conn.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone()
    if not exists:
        conn.execute(sql.SQL("CREATE SCHEMA {}").format(place))
    may = conn.execute(
        "SELECT has_schema_privilege(%s, %s, 'CREATE')", (ROLES[0], schema)
    ).fetchone()
    if may is not None and not may[0]:
        conn.execute(sql.SQL("GRANT USAGE, CREATE ON SCHEMA {} TO {}").format(place, owner))
    conn.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(place, others))


def _ensure_role(conn: Connection[Any], role: str) -> None:
    name = sql.Identifier(role)
    if not conn.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone():
        conn.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(name))
    # From 16 on, who creates a role may hand it out, but does not belong to it.
    belongs = conn.execute(
        "SELECT rolsuper OR EXISTS (SELECT FROM pg_auth_members m"
        " JOIN pg_roles g ON g.oid = m.roleid WHERE g.rolname = %s AND m.member = r.oid"
        " AND coalesce((to_jsonb(m) ->> 'set_option')::boolean, true))"
        " FROM pg_roles r WHERE rolname = current_user",
        (role,),
    ).fetchone()
    if belongs is not None and not belongs[0]:
        conn.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(name))


def _settle_race(step: Callable[[], None]) -> None:
    """Repeat a step on roles, which all databases share, while another does it too."""
    for attempt in range(20):
        try:
            return step()
        except (
            psycopg.errors.DuplicateObject,
            psycopg.errors.UniqueViolation,
            psycopg.errors.InternalError_,  # "tuple concurrently updated"
        ):
            threading.Event().wait(random.uniform(0, 0.02 * (attempt + 1)))  # noqa: S311
    return step()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(resource("migrations")).replace("%", "%%"))
    return config


def _upgrade(url: str, schema: str) -> None:
    """Run the revisions as the owner role, which everything then belongs to."""
    parts = psycopg.conninfo.conninfo_to_dict(url)
    engine = create_engine(
        make_url("postgresql+psycopg://"), connect_args=parts, poolclass=pool.NullPool
    )
    quoted = '"' + schema.replace('"', '""') + '"'
    with engine.connect() as connection:
        connection.execute(text("SET ROLE fencepost_owner"))
        connection.execute(text(f"SET search_path = {quoted}, pg_temp"))
        connection.commit()
        config = _config()
        config.attributes.update(connection=connection, schema=schema)
        command.upgrade(config, "head")
        connection.commit()
    engine.dispose()
