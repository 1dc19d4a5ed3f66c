"""The settings: one frozen object, whose fields are the one table of names, defaults and help.

Written by hand and not with pydantic: producers import this, and their install
has nothing but psycopg and cryptography.
"""

from __future__ import annotations

import base64
import os
import secrets as chance
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from fencepost import home as own
from fencepost import setting_values as read
from fencepost.errors import SettingsError
from fencepost.keyring import Keyring
from fencepost.setting_defaults import complete, contradictions, missing
from fencepost.setting_sources import PREFIX, UNREADABLE, gather

_GENERATED: Final = "generated into `FENCEPOST_HOME`, only with the embedded database"


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table."""

    name: str
    """The environment variable."""
    default: str | None
    """As it would be written; None: what stands in ``shown`` happens."""
    shown: str
    """The default in words, for people."""
    unit: str
    """Of the value; empty where the name says it all."""
    help: str
    is_secret: bool
    """May be given as ``NAME_FILE``; never shown."""
    parse: Callable[[str], Any]


def _setting(
    parse: Callable[[str], Any],
    help_text: str,
    *,
    default: str | None = None,
    shown: str | None = None,
    unit: str = "",
    secret: bool = False,
) -> Any:  # noqa: ANN401  # a dataclass field stands for a value of any type
    if shown is None:
        shown = f"`{default}`" if default else "empty"
    about = {
        "parse": parse,
        "help": help_text,
        "default": default,
        "shown": shown,
        "unit": unit,
        "is_secret": secret,
    }
    return field(repr=not secret, metadata=about)


def _keys(name: str) -> Callable[[str], str]:
    """Make a parser that lets the keyring judge the keys, and keeps their text."""

    def parse(text: str) -> str:
        Keyring.parse(text, name=PREFIX + name)
        return text

    return parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, parsed. Source: CONTRACT section 5.

    Made by ``load``. Each field is the variable ``FENCEPOST_<FIELD>``; numbers carry
    their unit in their name.
    """

    database_url: str | None = _setting(
        read.database_url,
        "PostgreSQL 15 or later: the producers' own, so that they publish in their transactions",
        shown="embedded PostgreSQL in `FENCEPOST_HOME`",
        secret=True,
    )
    schema: str = _setting(read.schema, "the schema that the tables live in", default="public")
    home: Path = _setting(
        read.folder,
        "folder of the embedded database and the generated keys",
        default="./.fencepost",
    )
    keys: str | None = _setting(
        _keys("KEYS"),
        "`id:base64key` with commas between; seal payloads: the first seals, all open",
        shown=_GENERATED,
        secret=True,
    )
    endpoint_keys: str | None = _setting(
        _keys("ENDPOINT_KEYS"),
        "same form; seal signing secrets, header values, endpoint URLs and kept responses: for "
        "workers and the dashboard, never for producers",
        shown=_GENERATED,
        secret=True,
    )
    secret_key: str | None = _setting(
        read.secret_key, "signs cookies and cursors", shown=_GENERATED, secret=True
    )
    require_sealed: bool = _setting(
        read.flag,
        "`1`: only sealed payloads are accepted; the clear SQL door is closed",
        default="0",
    )
    bind: read.Address = _setting(
        read.address, "where the dashboard listens", default="127.0.0.1:8080"
    )
    worker_bind: read.Address | None = _setting(
        read.optional_address, "where a worker serves `/metrics` and `/healthz`", default="off"
    )
    trusted_hosts: tuple[str, ...] = _setting(
        read.hosts,
        "host names that the dashboard answers to, with commas between",
        shown="the host of `FENCEPOST_BIND`",
    )
    proxy_hops: int = _setting(
        read.whole(0, 10),
        "reverse proxies in front of the dashboard whose `X-Forwarded-*` headers count",
        default="0",
    )
    node_name: str = _setting(
        read.node_name, "this machine in RECEIVED rows and in worker ids", shown="the host name"
    )
    environment: str = _setting(read.label, "a badge on every page, such as `staging`", default="")
    transport: str = _setting(
        read.choice("requests", "curl"),
        "what sends the requests: `requests`, or `curl`, which needs the extra of that name",
        default="requests",
    )
    deadline_seconds: float = _setting(
        read.seconds(0.1, 300),
        "one attempt in total, from DNS to the last byte",
        default="15",
        unit="seconds",
    )
    connect_seconds: float = _setting(
        read.seconds(0.1, 300), "its connection, within the deadline", default="5", unit="seconds"
    )
    lease_seconds: float = _setting(
        read.seconds(1, 3600),
        "how long a claim holds without a heartbeat; heartbeats come every third of it",
        default="30",
        unit="seconds",
    )
    concurrency: int = _setting(
        read.whole(1, 10_000),
        "requests in flight per worker process",
        shown="`64` with `requests`, `1000` with `curl`",
    )
    max_in_flight_per_subscription: int = _setting(
        read.whole(1, 1000), "of those, to one subscription", default="32"
    )
    allow_networks: tuple[read.Network, ...] = _setting(
        read.networks,
        "CIDRs exempt from the ban on private addresses, such as `127.0.0.0/8`",
        default="",
    )
    allow_http: bool = _setting(
        read.flag,
        "`1`: endpoints may be plain http",
        shown="`1` with the embedded database, else `0`",
    )
    max_payload_bytes: int = _setting(
        read.whole(1, 67_108_864), "the largest payload", default="262144", unit="bytes"
    )
    max_batch_bytes: int = _setting(
        read.whole(1, 1_073_741_824), "the largest NDJSON batch", default="16777216", unit="bytes"
    )
    doorbell: bool = _setting(
        read.flag,
        "`0`: an idle worker looks ten times a second and asks no producer's commit to wake it; "
        "for databases that want no `NOTIFY`, and producers that use `PREPARE TRANSACTION`",
        default="1",
    )
    keep_responses: str = _setting(
        read.choice("none", "failures", "all"),
        "whose response bodies are kept, sealed: `none`, `failures` or `all`",
        default="failures",
    )
    retention_days: int = _setting(
        read.whole(1, 3650),
        "how long finished deliveries will be kept, with payload and trail; this version "
        "deletes nothing yet",
        default="30",
        unit="days",
    )
    is_embedded: bool = False
    """No database URL was set: ours is the embedded PostgreSQL in ``home``."""

    @classmethod
    def load(
        cls, environ: Mapping[str, str] | None = None, *, require: Collection[str] = ()
    ) -> Settings:
        """Read all settings from the environment and the file that it names. Writes nothing.

        Args:
            environ: None: the process's own.
            require: of ``keys``, ``endpoint_keys`` and ``secret_key``, those that the caller
                cannot do without; with the embedded database they are generated instead.

        Raises:
            SettingsError: one line for each fault, all at once.
        """
        texts, faults = gather(
            os.environ if environ is None else environ,
            names=[setting.name for setting in SETTINGS],
            secrets=[setting.name for setting in SETTINGS if setting.is_secret],
        )
        values: dict[str, Any] = {}
        for setting in SETTINGS:
            text = texts.get(setting.name, setting.default)
            values[_field_name(setting)] = _parse(setting, text, faults)
        values["is_embedded"] = PREFIX + "DATABASE_URL" not in texts
        if not values["is_embedded"]:
            unset = (name for name in sorted(require) if PREFIX + name.upper() not in texts)
            faults += [missing(name) for name in unset]
        faults += contradictions(values)
        if faults:
            raise SettingsError("\n".join(faults))
        return cls(**complete(values))

    @property
    def heartbeat_seconds(self) -> float:
        """How often leases are extended: two beats may fail before one is lost."""
        return self.lease_seconds / 3

    def connected_to(self, url: str) -> Settings:
        """Give the same settings with the URL at which the embedded database answers."""
        return replace(self, database_url=url)

    def keyring(self) -> Keyring:
        """Give the keys that seal payloads.

        Raises:
            SettingsError: they are not set, and not ours to generate.
        """
        return Keyring.parse(self._secret("keys", Keyring.generate))

    def endpoint_keyring(self) -> Keyring:
        """Give the keys that seal what belongs to endpoints; SettingsError as in ``keyring``."""
        return Keyring.parse(self._secret("endpoint_keys", Keyring.generate))

    def secret(self) -> bytes:
        """Give the key that signs cookies and cursors; SettingsError as in ``keyring``."""
        return self._secret("secret_key", _generate_secret).encode()

    def _secret(self, name: str, make: Callable[[], str]) -> str:
        """Give a secret's text; with an embedded database in place, make what is missing.

        A producer that forgot its keys has no such database: it must not seal with
        a key that nobody else holds.
        """
        text: str | None = getattr(self, name)
        if text is not None:
            return text
        if not self.is_embedded:
            raise SettingsError(missing(name))
        if not own.has_database(self.home):
            raise SettingsError(
                f"{missing(name)}; or start the embedded database, which brings its own "
                f"(there is none in {self.home})"
            )
        return own.read_or_create(self.home / name, make)


def _described(found: Field[Any]) -> Setting:
    return Setting(name=PREFIX + found.name.upper(), **found.metadata)


SETTINGS: Final = tuple(_described(found) for found in fields(Settings) if found.metadata)
"""The table, in the order of the README."""


def as_markdown() -> str:
    """Write the table for the README."""
    lines = ["| variable | default | |", "|---|---|---|"]
    for setting in SETTINGS:
        unit = f" ({setting.unit})" if setting.unit else ""
        lines.append(f"| `{setting.name}` | {setting.shown}{unit} | {setting.help} |")
    return "\n".join(lines)


def _field_name(setting: Setting) -> str:
    return setting.name.removeprefix(PREFIX).lower()


def _parse(setting: Setting, text: str | None, faults: list[str]) -> Any:  # noqa: ANN401  # any field's
    if text is None or text == UNREADABLE:
        return None
    if not text and setting.default != "" and setting.name != PREFIX + "TRUSTED_HOSTS":
        faults.append(f"{setting.name}: is set but empty; give a value or unset it")
        return None
    try:
        return setting.parse(text)
    except SettingsError as error:
        faults.append(str(error))
    except ValueError as error:
        faults.append(f"{setting.name}: {error}")
    return None


def _generate_secret() -> str:
    return base64.urlsafe_b64encode(chance.token_bytes(32)).decode().rstrip("=")
