"""``fencepost doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import click

from fencepost.cli import checks
from fencepost.cli.checks import Finding
from fencepost.cli.described import Command
from fencepost.cli.output import json_option, print_json
from fencepost.cli.root import FAILED
from fencepost.cli.session import open_connection
from fencepost.embedded import database
from fencepost.errors import FencepostError, SchemaError, SettingsError
from fencepost.home import has_database
from fencepost.settings import Settings
from fencepost.store.migrate import check_revision


@click.command("doctor", cls=Command, examples=("fencepost doctor", "fencepost doctor --json"))
@json_option
@click.pass_context
def command(ctx: click.Context, *, as_json: bool) -> None:
    """Find what is wrong with this installation, and say how to mend it.

    Looks at settings, keys and their files, database, clock, schema and guards, workers, outbox
    and leases. Changes nothing. Exit status 1 when there is a problem; warnings alone are 0.
    """
    findings = list(_examine())
    if as_json:
        print_json({"data": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            mend = "" if finding.mend is None else f". To mend it: {finding.mend}"
            click.echo(f"{finding.level:<7}  {finding.subject}: {finding.message}{mend}")
    if any(finding.level == "problem" for finding in findings):
        ctx.exit(FAILED)


def _examine() -> Iterator[Finding]:
    try:
        settings = Settings.load(require=("keys", "endpoint_keys", "secret_key"))
    except SettingsError as error:
        for fault in str(error).splitlines():
            yield Finding("problem", "settings", fault)
        return
    yield from checks.check_settings(settings)
    if settings.is_embedded:
        if not has_database(settings.home):
            yield Finding(
                "problem", "database", f"there is none in {settings.home} yet", "fencepost up"
            )
            return
        yield from checks.check_home(settings.home)
    try:
        with database(settings) as answering, open_connection(answering, "dashboard") as conn:
            yield from checks.check_server(conn)
            yield from checks.check_bell(conn)
            check_revision(conn)
            yield from checks.check_schema(conn)
            yield from checks.check_doors(conn, answering)
            yield from checks.check_keys(conn, answering)
            yield from checks.check_work(conn)
    except SchemaError as error:
        yield Finding("problem", "schema", str(error))
    except FencepostError as error:
        yield Finding("problem", "database", " ".join(str(error).split()))
