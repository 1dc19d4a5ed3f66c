"""The checks of ``fencepost doctor``: each finding is one line, with its mend."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal

from psycopg import Connection

from fencepost import __version__
from fencepost.errors import KeyUnavailableError, SettingsError, UndecryptableError
from fencepost.settings import Settings
from fencepost.store import checkup, publishing
from fencepost.store.session import is_lent
from fencepost.timeline_text import format_duration

_SKEW: Final = 5.0
_STUCK: Final = 60.0
_OLDEST_SERVER: Final = 150000
_SECRETS: Final = ("keys", "endpoint_keys", "secret_key")


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at and found.

    Attributes:
        level: ``problem`` makes the doctor exit with 1.
        subject: what was looked at.
        message: what was found.
        mend: what to do about it; None when there is nothing to do.
    """

    level: Literal["ok", "warning", "problem"]
    subject: str
    message: str
    mend: str | None = None


def check_settings(settings: Settings) -> Iterator[Finding]:
    """Look for settings that are legal, and still a trap."""
    if settings.lease_seconds < settings.deadline_seconds:
        yield Finding(
            "warning",
            "lease",
            f"a lease of {settings.lease_seconds:g} s is shorter than an attempt may take"
            f" ({settings.deadline_seconds:g} s): heartbeats must carry it, and a stalled worker"
            " means a duplicate sooner",
            f"set FENCEPOST_LEASE_SECONDS to {2 * settings.deadline_seconds:g} or more",
        )
    if not _is_private(settings.bind.host) and settings.proxy_hops == 0:
        yield Finding(
            "warning",
            "dashboard",
            f"it listens on {settings.bind} without a proxy in front: passwords travel in clear",
            "put a TLS proxy in front and set FENCEPOST_PROXY_HOPS=1, or bind to 127.0.0.1",
        )
    if settings.allow_networks:
        listed = ", ".join(map(str, settings.allow_networks))
        yield Finding(
            "warning",
            "endpoints",
            f"subscriptions may reach {listed}, and with it whatever listens there",
            "empty FENCEPOST_ALLOW_NETWORKS unless receivers really live there",
        )


def _is_private(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def check_home(home: Path) -> Iterator[Finding]:
    """Look at the modes of the secrets that the embedded database came with."""
    loose = False
    for path in (home / name for name in _SECRETS):
        with suppress(FileNotFoundError):
            if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                loose = True
                yield Finding("problem", "keys", f"others can read {path}", f"chmod 600 {path}")
    if not loose:
        yield Finding("ok", "keys", f"the secrets in {home} are their owner's alone")


def check_keys(conn: Connection[Any], settings: Settings) -> Iterator[Finding]:
    """See whether what is stored can be opened with the keys that are set."""
    try:
        keyring, endpoint_keyring = settings.keyring(), settings.endpoint_keyring()
    except SettingsError as error:
        yield Finding("problem", "keys", str(error))
        return
    missing = [key for key in checkup.waiting_key_ids(conn) if key not in keyring.key_ids]
    if missing:
        yield Finding(
            "problem",
            "keys",
            f"waiting payloads are sealed with keys that are not set: {', '.join(missing)}",
            "add them to FENCEPOST_KEYS, behind the first",
        )
    closed = []
    for found in checkup.read_sealed_endpoints(conn):
        try:
            endpoint_keyring.open(found.endpoint_sealed, context=("endpoint", str(found.id)))
        except (KeyUnavailableError, UndecryptableError):
            closed.append(found.name)
    if closed:
        more = f" and {len(closed) - 1} more" if len(closed) > 1 else ""
        yield Finding(
            "problem",
            "keys",
            f"the URL of subscription {closed[0]}{more} cannot be opened",
            "add the key that sealed it to FENCEPOST_ENDPOINT_KEYS, behind the first",
        )
    if not missing and not closed:
        yield Finding("ok", "keys", "they open every endpoint and what waits to be sent")


def check_server(conn: Connection[Any]) -> Iterator[Finding]:
    """Look at the server's version, its clock and what its durability stands on."""
    before = time.time()
    server = checkup.read_server(conn)
    after = time.time()
    if server.version < _OLDEST_SERVER:
        yield Finding("problem", "database", "it is older than PostgreSQL 15", "upgrade it")
    traps = {
        "fsync": (server.fsync, "a crash of the server can lose or destroy everything"),
        "synchronous_commit": (
            server.synchronous_commit,
            "a crash of the server can lose events whose publishing was answered",
        ),
        "autovacuum": (server.autovacuum, "the tables will grow without end"),
    }
    for name, (value, means) in traps.items():
        if value == "off":
            mend = f"set {name} = on in postgresql.conf"
            yield Finding("problem", "database", f"{name} is off: {means}", mend)
    skew = max(before - server.clock, server.clock - after, 0.0)
    if skew > _SKEW:
        yield Finding(
            "warning",
            "clock",
            f"this machine and the database differ by {format_duration(skew * 1000)}; leases and"
            " signatures go by the database, so receivers may refuse the timestamps",
            "let both follow NTP",
        )
    else:
        yield Finding("ok", "clock", "this machine and the database agree")
    yield Finding("ok", "database", f"PostgreSQL {server.version // 10000} answers")


def check_bell(conn: Connection[Any]) -> Iterator[Finding]:
    """See whether a worker with this address hears a producer's commit."""
    if is_lent(conn):
        yield Finding(
            "warning",
            "doorbell",
            "the database is reached through a pooler: a worker hears no commit through one, and"
            " looks ten times a second instead",
            "give workers the database's own address in FENCEPOST_DATABASE_URL",
        )


def check_doors(conn: Connection[Any], settings: Settings) -> Iterator[Finding]:
    """Compare what the database tells the producers' doors with the settings here."""
    there = publishing.read(conn)
    for name, value in there._asdict().items():
        if getattr(settings, name) != value:
            yield Finding(
                "warning",
                "publishing",
                f"the database holds FENCEPOST_{name.upper()} = {value:d}, the settings here"
                f" {getattr(settings, name):d}; producers go by the database",
                "run: fencepost migrate, with the settings that are meant",
            )


def check_schema(conn: Connection[Any]) -> Iterator[Finding]:
    """Look at the guards and the partitions; the revision is this version's already."""
    weak = checkup.sleeping_guards(conn)
    for trigger in weak:
        table, _, name = trigger.partition(".")
        yield Finding(
            "problem",
            "schema",
            f"the guard {name} on {table} is not always on: illegal states can get in",
            f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}",
        )
    if not checkup.has_partition_of_tomorrow(conn):
        yield Finding(
            "warning",
            "schema",
            "the trail has no partition for tomorrow yet; a worker makes it",
            "run a worker: fencepost worker",
        )
    if not weak:
        yield Finding("ok", "schema", "it is this version's, its guards are on")


def check_work(conn: Connection[Any]) -> Iterator[Finding]:
    """See whether workers live, and whether something waits that should not."""
    workers = checkup.read_workers(conn)
    alive = [worker for worker in workers if worker.silent_seconds < checkup.SILENT.total_seconds()]
    if alive:
        yield Finding("ok", "workers", f"{len(alive)} alive")
    else:
        heard = f"; {workers[0].worker_id} was the last" if workers else ""
        yield Finding(
            "problem", "workers", f"none is alive: nothing is sent{heard}", "fencepost worker"
        )
    for worker in alive:
        if worker.version != __version__:
            yield Finding(
                "warning",
                "workers",
                f"{worker.worker_id} runs {worker.version}, this is {__version__}",
                "restart it once the upgrade is done",
            )
    waited = checkup.oldest_in_outbox(conn)
    if waited is not None and waited > _STUCK:
        yield Finding(
            "problem",
            "outbox",
            f"an event has waited {format_duration(waited * 1000)} for its fan-out",
            "run a worker; if one runs, its log says why",
        )
    else:
        yield Finding("ok", "outbox", "nothing waits for its fan-out")
    expired = checkup.oldest_expired_lease(conn)
    if expired is not None and expired > _STUCK:
        yield Finding(
            "problem",
            "leases",
            f"one ran out {format_duration(expired * 1000)} ago and nobody took it back",
            "run a worker; if one runs, its log says why",
        )
