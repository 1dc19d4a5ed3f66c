"""The way in that ``up`` and ``demo`` print: an admin, a link for one login, a token."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import click

from fencepost.cli.running import Running
from fencepost.cli.session import actor, open_connection
from fencepost.errors import NotFoundError
from fencepost.passwords import hash_nothing
from fencepost.store.logins import LINK_LIFE, make_login_link
from fencepost.store.people import add_user, find_user
from fencepost.store.tokens import create_token, list_tokens, revoke_token
from fencepost.timeline_text import format_duration

ADMIN: Final = "admin"
_LIFE_OF_TOKEN: Final = timedelta(days=1)


def print_access(at: Running, *, token_name: str) -> str:
    """Print where the dashboard is and how to get in; give the API token.

    The token of an earlier run ends: it was printed to a terminal that is gone.

    Args:
        at: what is running.
        token_name: what the token is called.
    """
    who = actor()
    with open_connection(at.settings, "dashboard") as conn, conn.transaction():
        try:
            admin = find_user(conn, ADMIN)
        except NotFoundError:
            admin = add_user(conn, ADMIN, password_hash=hash_nothing(), role="admin", actor=who)
        link = make_login_link(conn, admin.id)
        for old in list_tokens(conn):
            if old.name == token_name and old.revoked_at is None:
                revoke_token(conn, old.id, actor=who)
        _, token = create_token(conn, token_name, role="admin", life=_LIFE_OF_TOKEN, actor=who)
    life = format_duration(LINK_LIFE.total_seconds() * 1000)
    click.echo(f"Dashboard  {at.url}")
    click.echo(f"Log in     {at.url}/login/{link}  (once, within {life})")
    click.echo(f"API token  {token}  (for a day)")
    return token
