"""Lists in parts: cursors read from the query string, and written into the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from flask import Response, jsonify, request

from dashboard.api.parameters import read_window
from dashboard.runtime import runtime
from fencepost.cursors import Cursors, Page, Position

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Positions:
    """Which part of a list is asked for, its cursors opened."""

    limit: int
    after: Position | None
    before: Position | None


def read_positions(scope: str) -> Positions:
    """Read ``limit``, ``after`` and ``before``.

    Args:
        scope: what the list is of: a cursor of another one is refused.

    Raises:
        InvalidInputError: naming the parameter.
    """
    window, cursors = read_window(), Cursors(runtime().secret)
    return Positions(
        window.limit,
        cursors.read(window.after, scope=scope, field="after"),
        cursors.read(window.before, scope=scope, field="before"),
    )


def as_page(page: Page[Row], to_json: Callable[[Row], object], *, scope: str) -> Response:
    """Answer with ``{"data", "next", "prev"}``, and the same as Link headers."""
    cursors = Cursors(runtime().secret)
    ends = {
        "next": ("after", cursors.write(page.next, scope=scope)),
        "prev": ("before", cursors.write(page.prev, scope=scope)),
    }
    document: dict[str, Any] = {"data": [to_json(row) for row in page.rows]}
    response = jsonify(document | {relation: cursor for relation, (_, cursor) in ends.items()})
    links = [
        f'<{_address(parameter, cursor)}>; rel="{relation}"'
        for relation, (parameter, cursor) in ends.items()
        if cursor is not None
    ]
    if links:
        response.headers["Link"] = ", ".join(links)
    return response


def _address(parameter: str, cursor: str) -> str:
    kept = [
        (name, value)
        for name, value in request.args.items(multi=True)
        if name not in {"after", "before"}
    ]
    return f"{request.path}?{urlencode([*kept, (parameter, cursor)])}"
