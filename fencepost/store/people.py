"""Users: who may log in, and as what. Each change needs a transaction, and is logged in it."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row, scalar_row

from fencepost.errors import ConflictError, InvalidInputError, NotFoundError
from fencepost.passwords import check_name, fold_name
from fencepost.records import User
from fencepost.store.actions import log_action, need_transaction
from fencepost.store.queries import load

_SQL = load("people.sql")
_COLUMNS = sql.SQL(_SQL.user_columns)

ROLES: Final = ("viewer", "operator", "admin")


def check_role(role: object) -> str:
    """Accept a role. InvalidInputError names ``role``."""
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidInputError("role", f"role must be one of {', '.join(ROLES)}")
    return role


def add_user(
    conn: Connection[Any], name: str, *, password_hash: str, role: str, actor: str
) -> User:
    """Add a user.

    Args:
        conn: inside a transaction; the caller commits.
        name: as it will be shown; it is compared without regard to case or look-alike letters.
        password_hash: from ``passwords.hash_password``.
        role: viewer, operator or admin.
        actor: who adds them.

    Raises:
        ConflictError: there is one of that name.
        InvalidInputError: ``name`` or ``role``.
    """
    need_transaction(conn)
    shown, role = check_name(name), check_role(role)
    query = sql.SQL(_SQL.add_user).format(columns=_COLUMNS)
    params = {
        "name": shown,
        "name_key": fold_name(shown),
        "password_hash": password_hash,
        "role": role,
    }
    with conn.cursor(row_factory=class_row(User)) as cur:
        added = cur.execute(query, params).fetchone()
    if added is None:
        raise ConflictError(f"There is a user named {shown!r} already.")
    _log(conn, added.id, actor, "user.add", {"name": shown, "role": role})
    return added


def list_users(conn: Connection[Any]) -> list[User]:
    """List all users by name, disabled ones too."""
    query = sql.SQL(_SQL.list_users).format(columns=_COLUMNS)
    with conn.cursor(row_factory=class_row(User)) as cur:
        return cur.execute(query).fetchall()


def find_user(conn: Connection[Any], name: str) -> User:
    """Give the user of this name; NotFoundError when there is none."""
    query = sql.SQL(_SQL.find_user).format(columns=_COLUMNS)
    with conn.cursor(row_factory=class_row(User)) as cur:
        found = cur.execute(query, {"name_key": fold_name(name)}).fetchone()
    if found is None:
        raise _none(name)
    return found


def set_role(conn: Connection[Any], name: str, role: str, *, actor: str) -> User:
    """Give a user another role, from their next request on.

    Raises:
        NotFoundError: there is none of that name.
        ConflictError: they are the last admin.
        InvalidInputError: ``role``.
    """
    role = check_role(role)
    found = _change(conn, name, takes_admin=role != "admin", role=role)
    _log(conn, found.id, actor, "user.set_role", {"name": found.name, "role": role})
    return found


def set_password(conn: Connection[Any], name: str, password_hash: str, *, actor: str) -> User:
    """Give a user another password, and close all their sessions.

    Raises:
        NotFoundError: there is none of that name.
    """
    found = _change(conn, name, password_hash=password_hash)
    conn.execute(_SQL.close_sessions_of, {"user_id": found.id})
    _log(conn, found.id, actor, "user.set_password", {"name": found.name})
    return found


def disable_user(conn: Connection[Any], name: str, *, actor: str) -> User:
    """Shut a user out, and close all their sessions.

    Raises:
        NotFoundError: there is none of that name.
        ConflictError: they are the last admin.
    """
    found = _change(conn, name, takes_admin=True, disabled=True)
    conn.execute(_SQL.close_sessions_of, {"user_id": found.id})
    _log(conn, found.id, actor, "user.disable", {"name": found.name})
    return found


def enable_user(conn: Connection[Any], name: str, *, actor: str) -> User:
    """Let a disabled user in again; NotFoundError when there is none of that name."""
    found = _change(conn, name, disabled=False)
    _log(conn, found.id, actor, "user.enable", {"name": found.name})
    return found


def _change(
    conn: Connection[Any],
    name: str,
    *,
    takes_admin: bool = False,
    role: str | None = None,
    password_hash: str | None = None,
    disabled: bool | None = None,
) -> User:
    need_transaction(conn)
    if takes_admin:
        with conn.cursor(row_factory=scalar_row) as cur:
            admins = cur.execute(_SQL.lock_admins).fetchall()
        if admins == [find_user(conn, name).id]:
            raise ConflictError(f"{name!r} is the last admin; make somebody else one first.")
    params = {
        "name_key": fold_name(name),
        "role": role,
        "password_hash": password_hash,
        "disabled": disabled,
    }
    query = sql.SQL(_SQL.change_user).format(columns=_COLUMNS)
    with conn.cursor(row_factory=class_row(User)) as cur:
        changed = cur.execute(query, params).fetchone()
    if changed is None:
        raise _none(name)
    return changed


def _none(name: str) -> NotFoundError:
    return NotFoundError(f"There is no user named {name!r}.")


def _log(
    conn: Connection[Any], user_id: UUID, actor: str, action: str, params: dict[str, str]
) -> None:
    log_action(conn, actor=actor, action=action, target=str(user_id), params=params, affected=1)
