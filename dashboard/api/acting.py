"""What a token changes: one transaction with its entry in the log of actions, refusals too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from flask import g
from psycopg import Connection

from dashboard.api.problem import request_id
from dashboard.database import transaction
from fencepost.errors import ConflictError
from fencepost.store.actions import log_action


@contextmanager
def acting(
    action: str,
    target: UUID | None = None,
    *,
    asked: Mapping[str, object] | None = None,
    timeout: str | None = None,
) -> Iterator[tuple[Connection[Any], str]]:
    """Give a transaction and who acts in it; what is refused for the thing's state is logged.

    The store's functions log what they do themselves.

    Args:
        action: as the log of actions calls it, ``delivery.replay``.
        target: what it is done to; None for several at once.
        asked: what the request asked for, never a secret.
        timeout: as for ``transaction``.

    Raises:
        ConflictError: from the block; logged as refused in a transaction of its own.
    """
    actor = str(g.actor)
    try:
        with transaction(timeout=timeout) as conn:
            yield conn, actor
    except ConflictError as error:
        with transaction() as conn:
            log_action(
                conn,
                actor=actor,
                action=action,
                target="-" if target is None else str(target),
                params={**(asked or {}), "refused": str(error)},
                affected=0,
                outcome="refused",
                request_id=request_id(),
            )
        raise
