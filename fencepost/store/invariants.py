"""What must hold whatever happened: statements over deliveries and trail that find nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, LiteralString

from psycopg import Connection

from fencepost.states import HELD, TRANSITIONS, Fact, State
from fencepost.store.queries import load

_SQL: Final = load("invariants.sql")
_NONE: Final[Mapping[str, LiteralString]] = MappingProxyType({})


def broken(
    conn: Connection[Any], *, since: object = "-infinity", more: Mapping[str, LiteralString] = _NONE
) -> dict[str, Sequence[Any]]:
    """Give the rules that do not hold, each with the rows that break it.

    Args:
        conn: one that may read everything and make temporary tables.
        since: only deliveries that have moved since this moment, database time, are looked at.
        more: other rules and their statements, which may read the scratch tables of these.
    """
    params = {
        "since": since,
        "facts": list(Fact),
        "states": list(State),
        "held": list(HELD),
        "origins": [origin for origin, _ in TRANSITIONS],
        "between": [move.rows[0] if len(move.rows) > 1 else None for move in TRANSITIONS.values()],
        "targets": [move.to for move in TRANSITIONS.values()],
    }
    statements = dict(_SQL)
    rules = {
        text.partition("\n")[0].removeprefix("-- "): text
        for name, text in statements.items()
        if name.startswith("rule_")
    }
    with conn.transaction():
        for name in ("make_legal", "make_chain", "make_told", "analyze_scratch"):
            conn.execute(statements[name], params)
        found = {rule: conn.execute(text, params).fetchall() for rule, text in rules.items()}
        found |= {rule: conn.execute(text).fetchall() for rule, text in more.items()}
        conn.execute(_SQL.drop_scratch)
    return {rule: rows for rule, rows in found.items() if rows}
