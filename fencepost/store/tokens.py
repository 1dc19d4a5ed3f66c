"""Tokens for programs: ``fp_``, an id, and 256 random bits that are shown once."""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from fencepost.errors import InvalidInputError, NotFoundError
from fencepost.lines import check_line
from fencepost.records import ApiToken
from fencepost.store.actions import log_action, need_transaction
from fencepost.store.people import check_role
from fencepost.store.queries import load

_SQL = load("tokens.sql")
_FORM: Final = re.compile(r"fp_([0-9a-f]{32})_([A-Za-z0-9_-]{43})")
_LONGEST_NAME: Final = 64
_LONGEST_LIFE: Final = timedelta(days=3650)


def create_token(
    conn: Connection[Any],
    name: str,
    *,
    role: str,
    life: timedelta | None = None,
    actor: str,
) -> tuple[ApiToken, str]:
    """Make a token.

    Args:
        conn: inside a transaction; the caller commits.
        name: what it is for; it stands in the log of actions.
        role: viewer, operator or admin.
        life: until it expires; None: it does not.
        actor: who makes it.

    Returns:
        The token's record, and its text, which is shown this once.

    Raises:
        InvalidInputError: ``name``, ``role`` or ``life``.
    """
    need_transaction(conn)
    if life is not None and not timedelta(0) < life <= _LONGEST_LIFE:
        raise InvalidInputError(
            "life", f"life must be above 0 and at most {_LONGEST_LIFE.days} days"
        )
    secret = secrets.token_urlsafe(32)
    params = {
        "name": check_line(name, field="name", longest=_LONGEST_NAME),
        "role": check_role(role),
        "secret_hash": _hash(secret),
        "life": life,
    }
    with conn.cursor(row_factory=class_row(ApiToken)) as cur:
        made = cur.execute(_SQL.add_token, params).fetchone()
    if made is None:
        raise AssertionError("INSERT … RETURNING gave no row")
    _log(conn, made, actor, "token.create")
    return made, f"fp_{made.id.hex}_{secret}"


def read_token(conn: Connection[Any], text: str) -> ApiToken | None:
    """Give the token of an ``Authorization`` header; None: unknown, revoked or expired.

    Looked up by hash, so that the time it takes tells nothing about the secret. When it was
    last used is written once a minute; the caller commits.
    """
    form = _FORM.fullmatch(text)
    if form is None:
        return None
    params = {"id": UUID(form[1]), "secret_hash": _hash(form[2])}
    with conn.cursor(row_factory=class_row(ApiToken)) as cur:
        return cur.execute(_SQL.read_token, params).fetchone()


def list_tokens(conn: Connection[Any]) -> list[ApiToken]:
    """List all tokens, the newest first, revoked and expired ones too."""
    with conn.cursor(row_factory=class_row(ApiToken)) as cur:
        return cur.execute(_SQL.list_tokens).fetchall()


def revoke_token(conn: Connection[Any], token_id: UUID, *, actor: str) -> ApiToken:
    """End a token at once.

    Raises:
        NotFoundError: there is none with this id that is not revoked already.
    """
    need_transaction(conn)
    with conn.cursor(row_factory=class_row(ApiToken)) as cur:
        found = cur.execute(_SQL.revoke_token, {"id": token_id}).fetchone()
    if found is None:
        raise NotFoundError(f"There is no token {token_id} to revoke.")
    _log(conn, found, actor, "token.revoke")
    return found


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _log(conn: Connection[Any], found: ApiToken, actor: str, action: str) -> None:
    params = {"name": found.name, "role": found.role}
    log_action(conn, actor=actor, action=action, target=str(found.id), params=params, affected=1)
