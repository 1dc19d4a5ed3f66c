"""``fencepost worker``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import click

from fencepost.cli.described import Command
from fencepost.cli.output import say
from fencepost.processes import Program, StopSignal, Supervisor, module_argv
from fencepost.settings import Settings

DRAIN_MARGIN = 30.0
"""Seconds that a worker has beyond the deadline of its last request, before it is killed."""


@click.command(
    "worker",
    cls=Command,
    examples=(
        "fencepost worker",
        "fencepost worker --processes 2 --name eu-west",
    ),
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Workers to run, each a process; one that dies is started again.",
)
@click.option(
    "--transport",
    type=click.Choice(["requests", "curl"]),
    help="What sends the requests; otherwise FENCEPOST_TRANSPORT.",
)
@click.option("--name", help="In front of the random suffix of worker ids; otherwise the node's.")
def command(processes: int, transport: str | None, name: str | None) -> None:
    """Run workers: they claim deliveries, send them and record what happened.

    The first SIGTERM or Ctrl-C lets what is in flight end and gives the rest back, the second
    leaves at once: leases run out then, and another worker takes over. With several processes,
    the n-th serves FENCEPOST_WORKER_BIND at that port plus n - 1.
    """
    environ = dict(os.environ)
    if transport is not None:
        environ["FENCEPOST_TRANSPORT"] = transport
    settings = Settings.load(environ, require=("keys", "endpoint_keys"))
    argv = module_argv("worker", *(() if name is None else ("--name", name)))
    if processes == 1:
        os.execve(argv[0], argv, environ)  # noqa: S606 - no shell is the point
    programs = [
        Program(f"worker {place + 1}", argv, _numbered(environ, settings, place))
        for place in range(processes)
    ]
    supervisor = Supervisor(programs, say=say)
    with StopSignal() as stop:
        try:
            supervisor.start()
            while not stop.wait(0.2):
                supervisor.mend()
        finally:
            patience = settings.deadline_seconds + DRAIN_MARGIN
            supervisor.stop(patience, is_urgent=lambda: stop.is_urgent)


def _numbered(environ: Mapping[str, str], settings: Settings, place: int) -> dict[str, str]:
    """Give each process an address of its own for its metrics."""
    bind = settings.worker_bind
    if bind is None or bind.port == 0:
        return dict(environ)
    return {**environ, "FENCEPOST_WORKER_BIND": str(replace(bind, port=bind.port + place))}
