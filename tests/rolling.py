"""Rolling up as a worker does; what is to be counted must have been committed."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from fencepost.store.rollups import Rolled, roll_up, take_rollup

ALL_TRANSACTIONS = 1 << 40


def roll(conn: Connection[Any], transactions: int = ALL_TRANSACTIONS) -> Rolled:
    """Make one run, with a worker's rights.

    Args:
        conn: a superuser's or the owner's, in autocommit.
        transactions: as for ``roll_up``.
    """
    with conn.transaction():
        conn.execute("SET LOCAL ROLE fencepost_worker")
        assert take_rollup(conn)
        return roll_up(conn, transactions=transactions)
