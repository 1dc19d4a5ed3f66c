"""Declare what a route's query string may hold; anything else is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from flask import current_app, request

from fencepost.errors import InvalidInputError

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 100
MAX_CURSOR: Final = 1024

View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the query string."""

    name: str
    description: str
    repeatable: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a list is asked for: ``after`` or ``before`` a cursor, or from its start."""

    limit: int = DEFAULT_LIMIT
    after: str | None = None
    before: str | None = None


WINDOW: Final = (
    Parameter("limit", f"rows of the answer, 1 to {MAX_LIMIT}; {DEFAULT_LIMIT} when not given"),
    Parameter("after", "`next` of an earlier answer"),
    Parameter("before", "`prev` of an earlier answer"),
)


def takes(*parameters: Parameter) -> Callable[[View], View]:
    """Declare the parameters of a route; a route that declares none takes none."""

    def decorate(view: View) -> View:
        view.query_parameters = parameters  # type: ignore[attr-defined]  # read by refuse_unknown
        return view

    return decorate


def refuse_unknown() -> None:
    """Refuse parameters that the route does not have, and single ones that are repeated.

    Raises:
        InvalidInputError: naming the parameter.
    """
    if request.endpoint is None:
        return
    view = current_app.view_functions[request.endpoint]
    declared: Sequence[Parameter] = getattr(view, "query_parameters", ())
    known = {parameter.name: parameter for parameter in declared}
    for name, values in request.args.lists():
        parameter = known.get(name)
        if parameter is None:
            raise InvalidInputError(name, "There is no such parameter here.")
        if len(values) > 1 and not parameter.repeatable:
            raise InvalidInputError(name, "This parameter may be given once.")
        if any("\0" in value for value in values):
            raise InvalidInputError(name, "This parameter holds a NUL.")


def read_window() -> Window:
    """Read ``limit``, ``after`` and ``before``.

    Raises:
        InvalidInputError: a limit out of bounds, or both cursors at once.
    """
    after, before = request.args.get("after"), request.args.get("before")
    if after is not None and before is not None:
        raise InvalidInputError("before", "Give either after or before.")
    for name, cursor in (("after", after), ("before", before)):
        if cursor is not None and not 0 < len(cursor) <= MAX_CURSOR:
            raise InvalidInputError(name, "This is no cursor of ours; take next or prev.")
    return Window(_limit(request.args.get("limit")), after, before)


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdecimal() and len(text) <= 3 and 0 < int(text) <= MAX_LIMIT):  # noqa: PLR2004
        raise InvalidInputError("limit", f"limit must be a whole number from 1 to {MAX_LIMIT}.")
    return int(text)
