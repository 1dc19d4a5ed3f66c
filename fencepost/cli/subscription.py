"""``fencepost subscription``: who receives what, and where."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from fencepost import retry, signing
from fencepost.cli.asking import confirm
from fencepost.cli.described import Group
from fencepost.cli.output import json_option, print_facts, print_json, print_table, say
from fencepost.cli.session import Session, actor, session
from fencepost.model import Subscription
from fencepost.objects import subscription_json
from fencepost.producer import Producer
from fencepost.store import subscriptions as store
from fencepost.store.deliveries import count_by_state
from fencepost.store.secrets import OVERLAP, revoke_secret, rotate_secret
from fencepost.subscription_spec import read_spec

_WHICH = click.argument("which", metavar="SUBSCRIPTION")


@click.group("subscription", cls=Group)
def command() -> None:
    """Say who receives what, and where. SUBSCRIPTION is a name or an id."""


@command.command(
    "add",
    examples=(
        "fencepost subscription add shop https://shop.example/hooks --event-type 'invoice.*'",
        "fencepost subscription add old https://old.example/in --signature-scheme stripe",
        "fencepost subscription add partner https://p.example/ --header @partner-headers.txt",
    ),
)
@click.argument("name")
@click.argument("url")
@click.option(
    "--event-type",
    "event_types",
    multiple=True,
    metavar="GLOB",
    help="What it receives, as in invoice.*; repeatable; otherwise everything.",
)
@click.option(
    "--signature-scheme",
    type=click.Choice(signing.SCHEMES),
    help="How requests are signed; otherwise by Standard Webhooks.",
)
@click.option("--signature-header", metavar="NAME", help="For the schemes that have a choice.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'|@FILE",
    help="Sent with every request; repeatable. Secret values belong in a file of such lines.",
)
@click.option("--secret-file", type=click.File(), help="The secret that receivers already have.")
@click.option("--max-attempts", type=int, help="Before the dead letter queue.")
@click.option("--backoff-base-seconds", type=float, help="The delay after the first failure.")
@click.option("--backoff-cap-seconds", type=float, help="The longest delay.")
@click.option("--retry-preset", type=click.Choice(list(retry.PRESETS)), help="A known schedule.")
@click.option(
    "--retry-status", "retry_statuses", type=int, multiple=True, help="Try again on it, too."
)
@click.option(
    "--no-retry-status", "no_retry_statuses", type=int, multiple=True, help="Give up on it."
)
@json_option
def add(*, headers: tuple[str, ...], secret_file: Any, as_json: bool, **given: Any) -> None:  # noqa: ANN401 - options
    """Add a subscription: URL receives the events published from now on.

    Prints its signing secret, which is not shown again.
    """
    fields = {name: value for name, value in given.items() if value not in (None, ())}
    fields |= {name: list(value) for name, value in fields.items() if isinstance(value, tuple)}
    if headers:
        fields["headers"] = _headers(headers)
    if secret_file is not None:
        fields["secret"] = secret_file.read().strip()
    with session(require=("endpoint_keys",)) as at:
        spec = read_spec(
            fields,
            allow_http=at.settings.allow_http,
            allow_networks=at.settings.allow_networks,
        )
        keyring = at.settings.endpoint_keyring()
        added, secret = store.add_subscription(at.conn, keyring, spec, actor=actor())
    if as_json:
        print_json(subscription_json(added, secret=secret))
    else:
        print_facts({"id": added.id, "name": added.name, "secret": secret})
        say("The secret is not shown again: give it to the receiver now.")


def _headers(given: tuple[str, ...]) -> Mapping[str, str]:
    lines: list[str] = []
    for text in given:
        if text.startswith("@"):
            try:
                lines += [line for line in Path(text[1:]).read_text().splitlines() if line.strip()]
            except (OSError, ValueError) as error:
                raise click.BadParameter(
                    f"cannot read {text[1:]}", param_hint="--header"
                ) from error
        else:
            lines.append(text)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name in headers:
            message = "each must be one NAME: VALUE, each name once"
            raise click.BadParameter(message, param_hint="--header")
        headers[name] = value.strip()
    return headers


@command.command(
    "list", examples=("fencepost subscription list", "fencepost subscription list --json")
)
@click.option("--removed", "with_removed", is_flag=True, help="Those that were removed, too.")
@json_option
def list_(*, with_removed: bool, as_json: bool) -> None:
    """List subscriptions, the newest first."""
    with session() as at:
        found = list(_all(at, with_removed=with_removed))
    if as_json:
        print_json({"data": [subscription_json(one) for one in found], "next": None, "prev": None})
        return
    print_table(
        ("name", "state", "event types", "url", "id"),
        [(one.name, _state(one), one.event_types, one.endpoint_masked, one.id) for one in found],
    )


def _all(at: Session, *, with_removed: bool) -> list[Subscription]:
    found: list[Subscription] = []
    page = store.list_subscriptions(at.conn, limit=200, with_removed=with_removed)
    found += page.rows
    while page.next is not None:
        page = store.list_subscriptions(
            at.conn, limit=200, after=page.next, with_removed=with_removed
        )
        found += page.rows
    return found


def _state(one: Subscription) -> str:
    return "removed" if one.removed_at is not None else one.state


@command.command("show", examples=("fencepost subscription show shop",))
@_WHICH
@json_option
def show(which: str, *, as_json: bool) -> None:
    """Show a subscription, and where its deliveries stand."""
    with session(is_snapshot=True) as at:
        found = store.find_subscription(at.conn, which)
        counts = count_by_state(at.conn, found.id)
    if as_json:
        deliveries = {state.value: count for state, count in counts.items()}
        print_json({**subscription_json(found), "deliveries": deliveries})
        return
    shown = subscription_json(found) | {
        "headers": found.header_names or None,
        "created_at": found.created_at,
        "removed_at": found.removed_at,
    }
    print_facts({name.replace("_", " "): value for name, value in shown.items()})
    standing = (f"{count} {state}" for state, count in counts.items() if count)
    click.echo(f"deliveries: {', '.join(standing) or 'none'}")


@command.command("pause", examples=("fencepost subscription pause shop --reason 'moving house'",))
@_WHICH
@click.option("--reason", metavar="TEXT", help="Shown to everybody.")
def pause(which: str, reason: str | None) -> None:
    """Hold a subscription's deliveries until it is resumed; nothing is lost."""
    with session() as at:
        found = store.find_subscription(at.conn, which)
        paused = store.pause_subscription(at.conn, found.id, reason=reason, actor=actor())
    click.echo(f"{paused.name} is paused: {paused.paused_reason}. Its deliveries are held.")


@command.command("resume", examples=("fencepost subscription resume shop",))
@_WHICH
def resume(which: str) -> None:
    """Send a paused subscription's held deliveries, and the new ones again."""
    with session() as at:
        found = store.find_subscription(at.conn, which)
        resumed = store.resume_subscription(at.conn, found.id, actor=actor())
    click.echo(f"{resumed.name} is active.")


@command.command(
    "rotate-secret",
    examples=(
        "fencepost subscription rotate-secret shop",
        "fencepost subscription rotate-secret shop --overlap-hours 1",
    ),
)
@_WHICH
@click.option(
    "--overlap-hours",
    type=click.FloatRange(0, 720),
    default=OVERLAP.total_seconds() / 3600,
    show_default=True,
    help="For so long the old secret signs beside the new one.",
)
@json_option
def rotate(which: str, overlap_hours: float, *, as_json: bool) -> None:
    """Make a new signing secret and print it; it is not shown again."""
    with session(require=("endpoint_keys",)) as at:
        found = store.find_subscription(at.conn, which)
        keyring, overlap = at.settings.endpoint_keyring(), timedelta(hours=overlap_hours)
        rotated, secret = rotate_secret(at.conn, keyring, found.id, overlap=overlap, actor=actor())
    if as_json:
        print_json(subscription_json(rotated, secret=secret))
    else:
        click.echo(secret)


@command.command("revoke-secret", examples=("fencepost subscription revoke-secret shop",))
@_WHICH
def revoke(which: str) -> None:
    """End every signing secret but the newest at once."""
    with session() as at:
        found = store.find_subscription(at.conn, which)
        ended = revoke_secret(at.conn, found.id, actor=actor())
    click.echo(f"{ended} older secret{'' if ended == 1 else 's'} of {found.name} ended.")


@command.command("test", examples=("fencepost subscription test shop",))
@_WHICH
@json_option
def test(which: str, *, as_json: bool) -> None:
    """Publish a fencepost.test event to this subscription alone, and print its id.

    A worker sends it like any other: see what came of it with `fencepost event show ID`.
    """
    with session(require=("keys",)) as at:
        found = store.find_subscription(at.conn, which)
        producer = Producer.of(at.settings)
        event_id = store.publish_test(at.conn, found.id, producer=producer, actor=actor())
    if as_json:
        print_json({"id": str(event_id)})
    else:
        click.echo(event_id)


@command.command("remove", examples=("fencepost subscription remove shop --yes",))
@_WHICH
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(which: str, *, yes: bool) -> None:
    """Remove a subscription. What still waits for it goes to the DLQ; its history stays."""
    with session() as at:
        found = store.find_subscription(at.conn, which)
        confirm(f"remove it ({found.endpoint_masked})", found.name, yes=yes)
        removed = store.remove_subscription(at.conn, found.id, actor=actor())
    click.echo(f"{removed.name} is removed.")
