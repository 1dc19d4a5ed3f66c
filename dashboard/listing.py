"""Lists of deliveries: the query string read, the page of rows, and the addresses around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from flask import request, url_for
from psycopg import Connection
from werkzeug.datastructures import MultiDict

from dashboard import presenters
from dashboard.names import names_of
from dashboard.preferences import PREFERENCES, rows_per_page
from dashboard.runtime import runtime
from fencepost.cursors import Cursors, Page, Position
from fencepost.errors import InvalidInputError
from fencepost.filters import DeliveryFilter
from fencepost.model import Delivery
from fencepost.states import State
from fencepost.store import deliveries
from fencepost.store.conditions import pin

LIMITS: Final = sorted(map(int, PREFERENCES["rows"].values))
COUNT_CAP: Final = 10_000
MOST_NEW: Final = 100
END: Final = "end"
"""In a cursor's place: before the end is the last page. No cursor is so short."""

_LABELS: Final = {
    "id": "id", "sub": "subscription", "state": "state", "phase": "phase", "type": "event type",
    "from": "from", "to": "to", "code": "answer", "err": "error",
    "min_attempts": "attempts at least", "max_attempts": "attempts at most",
    "q": "search", "replay": "replay", "worker": "worker", "fenced": "fenced out",
    "discarded": "discarded",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chip:
    """One active filter, and the list without it."""

    label: str
    value: str
    without_url: str


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a list of deliveries.

    Attributes:
        scope: the filter, with what the page itself fixes.
        params: the filter as the reader chose it, for the form and for links.
        rows: the page's deliveries, newest first.
        matched: how many the filter matches; more than ``COUNT_CAP`` stands for "more".
        url: the canonical address of this page of the list.
        pinned_url: the whole address of the list, its times fixed: for somebody else, later.
        mark: differs between filters.
        top: the cursor of what is newer than this page; None when the list is empty.
        names: of the subscriptions that occur.
    """

    scope: DeliveryFilter
    params: Mapping[str, list[str]]
    chips: Sequence[Chip]
    rows: Sequence[Delivery]
    matched: int
    url: str
    clear_url: str
    newest_url: str | None
    prev_url: str | None
    next_url: str | None
    oldest_url: str | None
    pinned_url: str
    mark: str
    top: str | None
    limit: int
    names: Mapping[UUID, str]

    @property
    def selectable(self) -> Mapping[str, list[str]]:
        """Give the filter as bulk actions need it: to them no state means the DLQ alone."""
        return replace(self.scope, state=self.scope.state or tuple(State)).to_params()

    @property
    def is_top(self) -> bool:
        """Whether the list began with this page as it was read: what is above it came since."""
        return self.prev_url is None and (bool(self.rows) or self.newest_url is None)

    @property
    def news(self) -> News:
        """Say that nothing is new yet."""
        return News(0, self.top)

    @property
    def count_in_words(self) -> str:
        """Say how many there are; beyond the cap only that there are more."""
        if self.matched > COUNT_CAP:
            return f"More than {COUNT_CAP:,} match."
        return f"{self.matched:,} {'matches' if self.matched == 1 else 'match'}."


def read_listing(
    conn: Connection[Any],
    endpoint: str,
    *,
    fixed: DeliveryFilter | None = None,
    kept: Mapping[str, Any] | None = None,
) -> Listing:
    """Read the page of a list that the query string asks for.

    Args:
        conn: reads only.
        endpoint: of the list.
        fixed: what the page decides, whatever is asked for: its state and whether discarded.
        kept: parameters of the page that are no filter, for all addresses of the list.

    Raises:
        InvalidInputError: names the parameter that cannot be read.
    """
    wanted = read_filter()
    scope = wanted if fixed is None else _fix(wanted, fixed)
    chosen = wanted if fixed is None else replace(wanted, state=(), discarded=None)
    limit = _limit()
    cursors = Cursors(runtime().secret)
    mark = scope.fingerprint()
    after, before = request.args.get("after"), request.args.get("before")
    if after and before:
        raise InvalidInputError("before", "give either after or before")
    is_from_end = before == END
    page = deliveries.list_deliveries(
        conn,
        scope,
        limit=limit,
        after=cursors.read(after or None, scope=mark, field="after"),
        before=None if is_from_end else cursors.read(before or None, scope=mark, field="before"),
        is_from_end=is_from_end,
    )
    params, kept = chosen.to_params(), kept or {}
    query: dict[str, Any] = {**params, **kept}
    if limit != rows_per_page():
        query["limit"] = limit

    def address(**cursor: str | None) -> str:
        return url_for(endpoint, **{**query, **cursor})

    names = names_of({*scope.sub, *(row.subscription_id for row in page.rows)})
    return Listing(
        scope=scope,
        params=params,
        chips=chips(endpoint, params, names, kept),
        rows=page.rows,
        matched=deliveries.count_capped(conn, scope, COUNT_CAP),
        url=address(after=after or None, before=before or None),
        clear_url=url_for(endpoint, **kept),
        newest_url=address() if after or before else None,
        prev_url=address(before=cursors.write(page.prev, scope=mark)) if page.prev else None,
        next_url=address(after=cursors.write(page.next, scope=mark)) if page.next else None,
        oldest_url=address(before=END) if page.next else None,
        pinned_url=pinned_url(conn, endpoint, chosen, kept),
        mark=mark,
        top=cursors.write(_first(page, scope), scope=mark),
        limit=limit,
        names=names,
    )


@dataclass(frozen=True, slots=True)
class News:
    """How many rows a list has gained since it was read.

    Attributes:
        count: up to ``MOST_NEW``, which stands for "or more".
        top: the cursor of the list's first row as it was read.
    """

    count: int
    top: str | None

    @property
    def in_words(self) -> str:
        """Say how many; beyond the limit that there are more."""
        return f"{self.count}{'+' if self.count >= MOST_NEW else ''} new, show"


def read_news(conn: Connection[Any], scope: DeliveryFilter) -> News:
    """Count what stands above the row whose cursor is in ``top``.

    Args:
        conn: reads only.
        scope: of the list.

    Raises:
        InvalidInputError: the cursor belongs to another list.
    """
    top = request.args.get("top") or None
    before = Cursors(runtime().secret).read(top, scope=scope.fingerprint(), field="top")
    page = deliveries.list_deliveries(conn, scope, limit=MOST_NEW, before=before)
    return News(len(page.rows), top)


def read_filter(source: MultiDict[str, str] | None = None) -> DeliveryFilter:
    """Read a filter from the query string, or from a form; InvalidInputError names the field."""
    given = request.args if source is None else source
    return DeliveryFilter.from_params(given.to_dict(flat=False), known_only=True)


def dead_letters(chosen: DeliveryFilter) -> DeliveryFilter:
    """Narrow a filter to what the DLQ page shows: dead letters that nobody gave up."""
    return _fix(chosen, DeliveryFilter(state=(State.DLQ,), discarded=False))


def _first(page: Page[Delivery], scope: DeliveryFilter) -> Position | None:
    if not page.rows:
        return None
    row = page.rows[0]
    return Position(row.id, row.dead_at if scope.is_by_entry else None)


def _fix(wanted: DeliveryFilter, fixed: DeliveryFilter) -> DeliveryFilter:
    return replace(wanted, state=fixed.state, discarded=fixed.discarded)


def _limit() -> int:
    text = request.args.get("limit") or str(rows_per_page())
    if text not in PREFERENCES["rows"].values:
        raise InvalidInputError("limit", f"limit is one of {', '.join(map(str, LIMITS))}")
    return int(text)


def pinned_url(
    conn: Connection[Any], endpoint: str, chosen: DeliveryFilter, kept: Mapping[str, Any]
) -> str:
    """Give the whole address of a list, its relative times counted back from now."""
    pinned: dict[str, Any] = pin(conn, chosen).to_params()
    return url_for(endpoint, _external=True, **pinned, **kept)


def chips(
    endpoint: str,
    params: Mapping[str, list[str]],
    names: Mapping[UUID, str],
    kept: Mapping[str, Any],
) -> Sequence[Chip]:
    """Show the active filters, each with the list without it."""
    found = []
    for name, values in params.items():
        for value in values:
            others = [other for other in values if other != value]
            rest: dict[str, Any] = {**params, **kept, name: others}
            found.append(Chip(_LABELS[name], _shown(name, value, names), url_for(endpoint, **rest)))
    return found


def _shown(name: str, value: str, names: Mapping[UUID, str]) -> str:
    if name == "sub":
        return names.get(UUID(value), value)
    if name == "state":
        return presenters.STATES[State(value.upper())].label
    return value
