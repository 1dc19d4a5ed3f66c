"""``fencepost publish``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from fencepost import payloads
from fencepost.cli.described import Command
from fencepost.cli.output import json_option, print_json
from fencepost.cli.session import session
from fencepost.producer import NewEvent, Producer
from fencepost.publish import publish_sealed_many


@click.command(
    "publish",
    cls=Command,
    examples=(
        "fencepost publish invoice.paid --data '{\"id\": 7}'",
        "fencepost publish invoice.paid --data @invoice.json --idempotency-key invoice-7",
        "gzip -c dump | fencepost publish dump.made --data - --content-type application/gzip",
    ),
)
@click.argument("event_type", metavar="TYPE")
@click.option(
    "--data",
    required=True,
    metavar="JSON|@FILE|-",
    help="The payload: as it stands, from a file, or from standard input; sent byte for byte.",
)
@click.option("--content-type", default=payloads.JSON, show_default=True, help="Of the payload.")
@click.option(
    "--idempotency-key",
    metavar="K",
    help="Publishing again under it gives the first event's id and publishes nothing.",
)
@json_option
def command(
    event_type: str, data: str, content_type: str, idempotency_key: str | None, *, as_json: bool
) -> None:
    """Publish an event of TYPE, such as invoice.paid, and print its id.

    A worker sends it to every subscription that listens to TYPE.
    """
    event = NewEvent(event_type, _read(data), content_type, idempotency_key)
    with session(require=("keys",), role="producer") as at:
        (published,) = publish_sealed_many(at.conn, [event], producer=Producer.of(at.settings))
    if as_json:
        print_json({"id": str(published.id), "duplicate": published.duplicate})
    else:
        click.echo(published.id)


def _read(data: str) -> bytes:
    if data == "-":
        return sys.stdin.buffer.read()
    if data.startswith("@"):
        try:
            return Path(data[1:]).read_bytes()
        except OSError as error:
            raise click.BadParameter(
                f"cannot read {data[1:]}: {error.strerror}", param_hint="--data"
            ) from None
    return os.fsencode(data)  # the very bytes of the command line
