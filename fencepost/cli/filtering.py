"""The options that choose deliveries, and lists that go on page by page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from fencepost.cli.output import print_json, print_table, say
from fencepost.cli.session import Session
from fencepost.cursors import Cursors
from fencepost.errors import InvalidInputError
from fencepost.filters import DeliveryFilter
from fencepost.model import Delivery, ErrorClass
from fencepost.objects import delivery_json
from fencepost.states import WAITING, State
from fencepost.store.deliveries import list_deliveries
from fencepost.store.subscriptions import find_subscription, get_subscription

F = TypeVar("F", bound=Callable[..., Any])

_SUBSCRIPTION = click.option(
    "--subscription", "subscriptions", multiple=True, metavar="S", help="Name or id; repeatable."
)
_TYPE = click.option(
    "--event-type", "types", multiple=True, metavar="GLOB", help="As in invoice.*; repeatable."
)
_STATE = click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.lower() for state in State], case_sensitive=False),
    help="Where they stand now; repeatable.",
)
_FROM = click.option(
    "--from", "since", metavar="T", help="Not before T: 2026-11-30T16:00Z, or -15m, -24h, -7d."
)
_TO = click.option("--to", "until", metavar="T", help="Before T.")
_ERROR = click.option(
    "--error",
    "errors",
    multiple=True,
    type=click.Choice([error.value for error in ErrorClass]),
    metavar="CLASS",
    help="Class of the last failure, such as timeout or http_5xx; repeatable.",
)
_LIMIT = click.option(
    "--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="Rows of a page."
)
_AFTER = click.option("--after", metavar="CURSOR", help="Go on after the page that printed it.")
_BEFORE = click.option("--before", metavar="CURSOR", help="The page before.")


def scope_options(command: F) -> F:
    """Give a command ``--subscription --event-type --from --to --error``."""
    for option in (_ERROR, _TO, _FROM, _TYPE, _SUBSCRIPTION):
        command = option(command)
    return command


def state_option(command: F) -> F:
    """Give a command ``--state``."""
    return _STATE(command)


def page_options(command: F) -> F:
    """Give a command ``--limit --after --before``."""
    for option in (_BEFORE, _AFTER, _LIMIT):
        command = option(command)
    return command


_PARAMETERS: Final = {
    "states": "state",
    "types": "type",
    "errors": "err",
    "since": "from",
    "until": "to",
}
_OPTIONS: Final = {"from": "--from", "to": "--to", "type": "--event-type"}
_COLUMNS: Final = ("subscription", "event type", "attempts", "last answer")

_CURSOR_KEY: Final = b"a place in a list of the command line"
"""No secret: who can run commands reads the database anyway, and need not have the dashboard's."""


def scope_of(at: Session, chosen: Mapping[str, Any]) -> DeliveryFilter:
    """Turn the options into a filter.

    Args:
        at: looks up subscriptions by name.
        chosen: the values of ``scope_options`` and ``state_option``, and nothing else.

    Raises:
        NotFoundError: there is no such subscription.
        click.UsageError: a value cannot be read; names the option.
    """
    params: dict[str, list[str]] = {}
    for option, value in chosen.items():
        if option == "subscriptions":
            params["sub"] = [str(find_subscription(at.conn, text).id) for text in value]
        elif value:
            params[_PARAMETERS[option]] = [value] if isinstance(value, str) else list(value)
    try:
        return DeliveryFilter.from_params(params)
    except InvalidInputError as error:
        hint = _OPTIONS.get(error.field)
        raise click.BadParameter(str(error), param_hint=hint) from error


def print_deliveries(
    at: Session,
    scope: DeliveryFilter,
    *,
    limit: int,
    after: str | None,
    before: str | None,
    as_json: bool,
) -> None:
    """Print one page of deliveries, and how to go on."""
    if after is not None and before is not None:
        raise click.UsageError("give --after or --before, not both")
    cursors, of = Cursors(_CURSOR_KEY), scope.fingerprint()
    page = list_deliveries(
        at.conn,
        scope,
        limit=limit,
        after=cursors.read(after, scope=of, field="after"),
        before=cursors.read(before, scope=of, field="before"),
    )
    following = cursors.write(page.next, scope=of)
    if as_json:
        preceding = cursors.write(page.prev, scope=of)
        objects = [delivery_json(row) for row in page.rows]
        print_json({"data": objects, "next": following, "prev": preceding})
        return
    names = {
        id_: get_subscription(at.conn, id_, with_removed=True).name
        for id_ in {row.subscription_id for row in page.rows}
    }
    common = [_common(row, names[row.subscription_id]) for row in page.rows]
    if scope.is_by_entry:
        print_table(
            ("id", *_COLUMNS, "reason", "entered"),
            [
                (row.id, *cells, row.dead_reason, row.dead_at)
                for row, cells in zip(page.rows, common, strict=True)
            ],
        )
    else:
        print_table(
            ("id", "state", *_COLUMNS, "due", "updated"),
            [
                (
                    row.id,
                    row.current_state,
                    *cells,
                    row.next_attempt_at if row.current_state in WAITING else None,
                    row.updated_at,
                )
                for row, cells in zip(page.rows, common, strict=True)
            ],
        )
    if following is not None:
        say(f"There are more; go on with: --after {following}")


def _common(row: Delivery, subscription: str) -> tuple[object, ...]:
    answer = " ".join(str(part) for part in (row.last_status, row.last_error) if part is not None)
    return subscription, row.event_type, row.attempt_count, answer or None
