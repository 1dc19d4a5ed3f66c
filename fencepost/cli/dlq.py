"""``fencepost dlq``: work through the dead letters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace as replace_fields
from typing import Any, Final, TypeVar

import click
from psycopg import Rollback

from fencepost.cli.asking import confirm
from fencepost.cli.described import Group
from fencepost.cli.filtering import page_options, print_deliveries, scope_of, scope_options
from fencepost.cli.output import json_option, print_json, say
from fencepost.cli.progress import progress
from fencepost.cli.session import Session, actor, connected, session
from fencepost.errors import ConflictError
from fencepost.filters import DeliveryFilter
from fencepost.objects import replay_json
from fencepost.records import Discard, Replay
from fencepost.replay_reasons import in_words
from fencepost.states import State
from fencepost.store.checkup import is_worker_alive
from fencepost.store.discards import cancel_discard, draft_discard, lock_discard, start_discard
from fencepost.store.giving_up import discard_batch
from fencepost.store.replays import cancel_replay, draft_replay, get_replay, start_replay

F = TypeVar("F", bound=Callable[..., Any])

_UNNAMED: Final = "from the command line"
_LOOK_EVERY: Final = 0.25


@click.group("dlq", cls=Group)
def command() -> None:
    """Work through the dead letters: what failed for good, or was given up."""


@command.command(
    "list",
    examples=(
        "fencepost dlq list --subscription shop --error http_5xx",
        "fencepost dlq list --from -24h --json",
    ),
)
@scope_options
@page_options
@json_option
def list_(limit: int, after: str | None, before: str | None, *, as_json: bool, **of: Any) -> None:  # noqa: ANN401 - options
    """List dead letters, the last to come in first; --from and --to mean when they came in.

    Those that were discarded are in `fencepost delivery list --state dlq`.
    """
    with session() as at:
        scope = _dead(at, of)
        print_deliveries(at, scope, limit=limit, after=after, before=before, as_json=as_json)


def _dead(at: Session, of: Mapping[str, Any]) -> DeliveryFilter:
    return replace_fields(scope_of(at, of), state=(State.DLQ,), discarded=False)


def _acting(command_: F) -> F:
    """Give a command what every bulk action has."""
    for option in (
        json_option,
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Count, and change nothing."),
        click.option("--reason", metavar="TEXT", help="Why; shown in each timeline."),
        scope_options,
    ):
        command_ = option(command_)
    return command_


@command.command(
    "replay",
    examples=(
        "fencepost dlq replay --subscription shop --dry-run",
        "fencepost dlq replay --subscription shop --reason 'shop is mended' --yes",
        "fencepost dlq replay --error timeout --from -24h --rate 50",
    ),
)
@_acting
@click.option("--rate", type=float, metavar="N", help="Per second, to each subscription.")
@click.option("--newest-first", is_flag=True, help="The last to come in first.")
def replay(
    *,
    reason: str | None,
    rate: float | None,
    newest_first: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **of: Any,  # noqa: ANN401 - options
) -> None:
    """Send all dead letters that match again, each with a fresh budget of attempts.

    Counts first, and asks for the exact number. Discarded ones stay where they are. A worker does
    it: interrupting this command stops the watching, not the replay.
    """
    with connected() as at:
        with at.conn.transaction():
            draft = draft_replay(
                at.conn,
                _dead(at, of),
                reason=reason or _UNNAMED,
                rate=rate,
                newest_first=newest_first,
                actor=actor(),
            )
            if dry_run or not draft.eligible:
                raise Rollback  # who only counts leaves nothing behind
        not_eligible = draft.matched - draft.eligible
        why = in_words(draft.not_eligible)
        left = f", {not_eligible} of them cannot be sent again: {why}" if not_eligible else ""
        say(f"{draft.matched} dead letters match{left}.")
        if dry_run or not draft.eligible:
            if as_json:
                print_json(
                    {
                        "matched": draft.matched,
                        "eligible": draft.eligible,
                        "not_eligible": dict(draft.not_eligible),
                    }
                )
            else:
                click.echo("0 sent again")
            return
        try:
            _confirm("send again", draft.eligible, yes=yes)
        except (click.ClickException, click.Abort):
            with at.conn.transaction():
                cancel_replay(at.conn, draft.id, actor=actor())
            raise
        with at.conn.transaction():
            started = start_replay(at.conn, draft.id, actor=actor(), confirm=draft.eligible)
        _print(_watch(at, started), as_json=as_json)


def _watch(at: Session, started: Replay) -> Replay:
    """Follow a replay to its end; without a worker there is nothing to follow."""
    found, tick = started, threading.Event()
    with progress("Sending again", started.eligible) as show:
        while found.state in ("RUNNING", "PAUSED"):
            if not found.requeued and not is_worker_alive(at.conn):
                say(f"No worker is alive: replay {found.id} goes on as soon as one is.")
                break
            tick.wait(_LOOK_EVERY)
            found = get_replay(at.conn, found.id)
            show(found.requeued + found.skipped)
            if found.paused_reason is not None:
                raise ConflictError(
                    f"Replay {found.id} paused itself: {found.paused_reason}."
                    f" Resume it on its page, or with POST /api/v1/replays/{found.id}/resume."
                )
    if found.state == "FAILED":
        raise ConflictError(f"Replay {found.id} failed: {found.failure}")
    return found


def _print(found: Replay, *, as_json: bool) -> None:
    if as_json:
        print_json(replay_json(found))
        return
    click.echo(f"replay {found.id}: {found.state}, {found.requeued} sent again,"
               f" {found.skipped} passed over, {found.remaining} to go")  # fmt: skip


@command.command(
    "discard",
    examples=(
        "fencepost dlq discard --event-type 'test.*' --dry-run",
        "fencepost dlq discard --subscription gone --reason 'customer left' --yes",
    ),
)
@_acting
def discard(
    *,
    reason: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **of: Any,  # noqa: ANN401 - options
) -> None:
    """Give up all dead letters that match: they stay, and bulk replays pass over them.

    Counts first, and asks for the exact number. Interrupted, a worker goes on with it.
    """
    with connected() as at:
        with at.conn.transaction():
            draft = draft_discard(at.conn, _dead(at, of), reason=reason or _UNNAMED, actor=actor())
            if dry_run or not draft.eligible:
                raise Rollback  # who only counts leaves nothing behind
        say(f"{draft.matched} dead letters match, {draft.eligible} of them can be discarded.")
        if dry_run or not draft.eligible:
            _print_discard(draft, as_json=as_json)
            return
        try:
            _confirm("discard", draft.eligible, yes=yes)
        except (click.ClickException, click.Abort):
            with at.conn.transaction():
                cancel_discard(at.conn, draft.id, actor=actor())
            raise
        with at.conn.transaction():
            started = start_discard(at.conn, draft.id, actor=actor(), confirm=draft.eligible)
        _print_discard(_finish(at, started), as_json=as_json)


def _finish(at: Session, started: Discard) -> Discard:
    """Make batch after batch, beside the workers: each is made by whoever comes first."""
    found = started
    with progress("Discarding", started.eligible) as show:
        while found.state == "RUNNING":
            with at.conn.transaction():
                found = lock_discard(at.conn, found.id)
                if found.state == "RUNNING":
                    found = discard_batch(at.conn, found)
            show(found.discarded + found.skipped)
    if found.state == "FAILED":
        raise ConflictError(f"Discard {found.id} failed: {found.failure}")
    return found


def _print_discard(found: Discard, *, as_json: bool) -> None:
    if as_json:
        print_json({name: getattr(found, name) for name in ("matched", "eligible", "discarded")})
    else:
        click.echo(f"{found.discarded} discarded")


def _confirm(what: str, count: int, *, yes: bool) -> None:
    confirm(f"{what} {count}", str(count), yes=yes, look="look with --dry-run, then")
