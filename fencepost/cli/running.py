"""Fencepost as a whole on this machine: database, dashboard and one worker, until a signal."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from psycopg import Connection

from fencepost.cli.output import say
from fencepost.cli.schema import prepare
from fencepost.cli.session import open_connection
from fencepost.embedded import database
from fencepost.errors import ConflictError, FencepostError
from fencepost.processes import Program, StopSignal, Supervisor, describe_exit, module_argv
from fencepost.settings import Settings
from fencepost.store.checkup import read_workers

DRAIN_MARGIN: Final = 30.0
"""Seconds that programs have beyond the deadline of the last request, before they are killed."""

_PATIENCE: Final = 60.0
"""Seconds until dashboard and worker must be ready."""

_LOOK_EVERY: Final = 0.1


class StartError(FencepostError):
    """A program did not become ready; everything was stopped again."""


@dataclass(frozen=True, slots=True)
class Running:
    """What is running, and how to be asked to stop it."""

    settings: Settings
    supervisor: Supervisor
    stop: StopSignal
    logs: Path | None
    drain: Callable[[], None]
    """Ends the programs and waits until they have; the database stays. Harmless when repeated."""

    @property
    def url(self) -> str:
        """Where the dashboard answers, for a browser on this machine."""
        return base_url(self.settings)


def base_url(settings: Settings) -> str:
    """Give the dashboard's address; one that listens everywhere is reached by loopback."""
    bind = settings.bind
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind.host, bind.host)  # noqa: S104 - compared
    return f"http://[{host}]:{bind.port}" if ":" in host else f"http://{host}:{bind.port}"


@contextmanager
def running(environ: Mapping[str, str], *, logs: Path | None = None) -> Iterator[Running | None]:
    """Run database, dashboard and a worker for as long as the block takes; leave nothing behind.

    Args:
        environ: of the programs, settings included.
        logs: a folder for what they write; None: to our own output.

    Yields:
        What is running; None when a signal came before it was ready.

    Raises:
        SettingsError: the settings are at fault.
        ConflictError: the dashboard's address is taken.
        StartError: a program ended instead of becoming ready.
    """
    chosen = Settings.load(environ, require=("keys", "endpoint_keys", "secret_key"))
    _check_free(chosen)
    with StopSignal() as stop, database(chosen) as settings:
        prepare(settings)
        if logs is not None:
            logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        programs = [
            Program(
                name, module_argv(name), environ, None if logs is None else logs / f"{name}.log"
            )
            for name in ("dashboard", "worker")
        ]
        supervisor = Supervisor(programs, say=say)
        with ExitStack() as started:
            started.callback(_drain, supervisor, stop, settings)
            at = Running(settings, supervisor, stop, logs, started.close)
            yield at if _start(at) else None


def _drain(supervisor: Supervisor, stop: StopSignal, settings: Settings) -> None:
    say("Stopping; what is in flight may end. Again to leave at once.")
    patience = settings.deadline_seconds + DRAIN_MARGIN
    supervisor.stop(patience, is_urgent=lambda: stop.is_urgent)


def keep(at: Running, *, every: Callable[[], None] = lambda: None, pause: float = 0.25) -> None:
    """Restart what dies, until a signal.

    Args:
        at: what is running.
        every: called again and again in between.
        pause: seconds between two calls.
    """
    while not at.stop.wait(pause):
        at.supervisor.mend()
        every()


def _check_free(settings: Settings) -> None:
    """Find a taken address before anything is started; a later one is the dashboard's to tell."""
    bind = settings.bind
    family = socket.AF_INET6 if ":" in bind.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((bind.host, bind.port))
        except OSError as error:
            raise ConflictError(
                f"{bind} cannot be listened on ({error.strerror}); choose another address with"
                " FENCEPOST_BIND=127.0.0.1:8081"
            ) from error


def _start(at: Running) -> bool:
    """Wait for the dashboard's answer and the new worker's first sign; False: a signal came."""
    waited = 0.0
    with open_connection(at.settings, "dashboard") as conn:
        before = {worker.worker_id for worker in read_workers(conn)}
        at.supervisor.start()
        while not (_answers(at.settings) and _is_working(conn, before)):
            for name, status in at.supervisor.dead:
                why = (
                    "its output above says why" if at.logs is None else f"see {at.logs}/{name}.log"
                )
                raise StartError(f"{name} {describe_exit(status)}; {why}")
            if waited >= _PATIENCE:
                raise StartError(f"dashboard and worker are not ready after {_PATIENCE:g} s")
            waited += _LOOK_EVERY
            if at.stop.wait(_LOOK_EVERY):
                return False
    return True


def _is_working(conn: Connection[Any], before: set[str]) -> bool:
    return any(worker.worker_id not in before for worker in read_workers(conn))


def _answers(settings: Settings) -> bool:
    """Ask the dashboard whether it is ready to serve."""
    host = base_url(settings).removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=5)
    with suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    return False
