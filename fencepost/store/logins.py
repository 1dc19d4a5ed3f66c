"""How people get in: passwords under a throttle, links for one login, and sessions.

All times are the database's. A session, a link and a throttle live in the database, so that
every process of the dashboard knows them and none can be made up.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, cast
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row, dict_row, scalar_row

from fencepost.passwords import fold_name, is_password
from fencepost.records import User
from fencepost.store.actions import need_transaction
from fencepost.store.queries import load

_SQL = load("logins.sql")
_COLUMNS = sql.SQL(_SQL.user_columns)

IDLE: Final = timedelta(minutes=30)
LONGEST: Final = timedelta(hours=12)
LINK_LIFE: Final = timedelta(minutes=15)

_FREE_OF_NAME: Final = 5
_FREE_OF_ADDRESS: Final = 20
_LONGEST_WAIT_OF_NAME: Final = 60.0
"""Short enough that nobody is locked out by others who try their name."""
_LONGEST_WAIT_OF_ADDRESS: Final = 600.0
_MEMORY: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Login:
    """What came of a login.

    Attributes:
        user: who is in; None: nobody.
        session: the text for the cookie.
        wait_seconds: before the next try is looked at; 0: the name or the password was wrong.
    """

    user: User | None = None
    session: str | None = field(default=None, repr=False)
    wait_seconds: int = 0


def log_in(conn: Connection[Any], name: str, password: str, *, address: str | None) -> Login:
    """Check a name and a password, and open a session.

    Failures of one name and of one network (IPv4 /24, IPv6 /64) are counted, also of names
    that do not exist; beyond a few, each doubles the wait before the next try is looked at.

    Args:
        conn: inside a transaction; commit it whatever came of it: it holds the count.
        name: as it was typed.
        password: as it was typed.
        address: the client's; None: not known.
    """
    need_transaction(conn)
    network, account = f"network {_network(address)}", f"name {fold_name(name)[:200]}"
    wait = _take_attempt(conn, network, _FREE_OF_ADDRESS, _LONGEST_WAIT_OF_ADDRESS)
    wait = wait or _take_attempt(conn, account, _FREE_OF_NAME, _LONGEST_WAIT_OF_NAME)
    if wait:
        return Login(wait_seconds=math.ceil(wait))
    query = sql.SQL(_SQL.find_login).format(columns=_COLUMNS)
    with conn.cursor(row_factory=dict_row) as cur:
        found = cur.execute(query, {"name_key": fold_name(name)}).fetchone() or {}
    if not is_password(password, found.pop("password_hash", None)):
        return Login()
    conn.execute(_SQL.forget_failures, {"subject": account})
    conn.execute(_SQL.take_back, {"subject": network})
    user = User(**found)
    return Login(user, open_session(conn, user.id))


def open_session(conn: Connection[Any], user_id: UUID) -> str:
    """Open a session, and give the text for its cookie; the database has its hash alone."""
    conn.execute(_SQL.drop_expired, {"idle": IDLE, "longest": LONGEST, "memory": _MEMORY})
    token = secrets.token_urlsafe(32)
    conn.execute(_SQL.open_session, {"token_hash": _hash(token), "user_id": user_id})
    return token


def read_session(conn: Connection[Any], token: str) -> User | None:
    """Give whose session it is, with the role that they have now; None: it is over, or never was.

    It is over 30 minutes after it was used last, 12 hours after it began, and as soon as the
    user is disabled.
    """
    query = sql.SQL(_SQL.read_session).format(columns=_COLUMNS)
    params = {"token_hash": _hash(token), "idle": IDLE, "longest": LONGEST}
    with conn.cursor(row_factory=class_row(User)) as cur:
        return cur.execute(query, params).fetchone()


def list_open(conn: Connection[Any], keys: Collection[bytes]) -> frozenset[bytes]:
    """Give those of these sessions that are not over; to be asked about prolongs none.

    Args:
        conn: reads only.
        keys: from ``session_key``.
    """
    params = {"token_hashes": list(keys), "idle": IDLE, "longest": LONGEST}
    with conn.cursor(row_factory=scalar_row) as cur:
        return frozenset(map(bytes, cur.execute(_SQL.list_open, params).fetchall()))


def session_key(token: str) -> bytes:
    """Give what the database knows a session by, from the text of its cookie."""
    return _hash(token)


def close_session(conn: Connection[Any], token: str) -> None:
    """Log out."""
    conn.execute(_SQL.close_session, {"token_hash": _hash(token)})


def make_login_link(conn: Connection[Any], user_id: UUID, *, life: timedelta = LINK_LIFE) -> str:
    """Make the secret part of a link that is good for one login; the caller commits."""
    token = secrets.token_urlsafe(32)
    params = {"token_hash": _hash(token), "user_id": user_id, "life": life}
    conn.execute(_SQL.add_login_link, params)
    return token


def use_login_link(conn: Connection[Any], token: str) -> User | None:
    """Use a link up, and give who may log in by it; None: it was used, has expired, or never was.

    Follow it with ``open_session`` in the same transaction.
    """
    query = sql.SQL(_SQL.use_login_link).format(columns=_COLUMNS)
    with conn.cursor(row_factory=class_row(User)) as cur:
        return cur.execute(query, {"token_hash": _hash(token)}).fetchone()


def _take_attempt(conn: Connection[Any], subject: str, free: int, longest: float) -> float:
    """Count one attempt; give the seconds to wait, and count nothing, where it comes too soon."""
    params = {
        "subject": subject,
        "free": free,
        "longest": longest,
        "memory": _MEMORY,
    }
    with conn.cursor(row_factory=scalar_row) as cur:
        return cast("float", cur.execute(_SQL.take_attempt, params).fetchone())


def _network(address: str | None) -> str:
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return "unknown"
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return str(ipaddress.ip_network((found, 24 if found.version == 4 else 64), strict=False))  # noqa: PLR2004


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
