"""Settings that depend on one another or on the machine: defaults, and what contradicts."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Final

from fencepost.setting_sources import PREFIX

_ORDERED: Final = (
    ("connect_seconds", "deadline_seconds"),
    ("max_payload_bytes", "max_batch_bytes"),
)
"""The first may not be more than the second."""

_CONCURRENCY: Final = {"requests": 64, "curl": 1000}
"""A thread for each request, or one thread for all of them."""

_THIS_MACHINE: Final = frozenset({"127.0.0.1", "::1", "localhost", "0.0.0.0", "::"})  # noqa: S104  # compared, not bound


def missing(name: str) -> str:
    """Say that a secret is not set, and how to make one."""
    if name == "secret_key":
        return f"{PREFIX}SECRET_KEY: is not set; make one with: openssl rand -hex 32"
    example = 'echo "key1:$(openssl rand -base64 32)"'
    return f"{PREFIX}{name.upper()}: is not set; make one with: {example}"


def contradictions(values: Mapping[str, Any]) -> list[str]:
    """Find values that are fine alone and wrong together; None is another fault's trace."""
    faults = []
    for smaller, larger in _ORDERED:
        low, high = values[smaller], values[larger]
        if low is not None and high is not None and low > high:
            name, limit = PREFIX + smaller.upper(), PREFIX + larger.upper()
            faults.append(f"{name}: {low:g} is more than {limit}, which is {high:g}")
    if _bare_keys(values["keys"]) & _bare_keys(values["endpoint_keys"]):
        faults.append(
            f"{PREFIX}ENDPOINT_KEYS: holds a key of {PREFIX}KEYS, which producers have; "
            "they must never open what belongs to endpoints: make another"
        )
    return faults


def complete(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the defaults that follow from other settings or from the machine."""
    completed = dict(values)
    if not completed["trusted_hosts"]:
        completed["trusted_hosts"] = _names_of(completed["bind"].host)
    if completed["node_name"] is None:
        completed["node_name"] = _host_name()
    if completed["concurrency"] is None:
        completed["concurrency"] = _CONCURRENCY[completed["transport"]]
    if completed["allow_http"] is None:
        completed["allow_http"] = completed["is_embedded"]
    return completed


def _bare_keys(text: str | None) -> set[str]:
    return {entry.partition(":")[2].strip() for entry in (text or "").split(",")} - {""}


def _names_of(host: str) -> tuple[str, ...]:
    """Give the names by which a browser may reach ``host``."""
    if host in _THIS_MACHINE:
        return ("localhost", "127.0.0.1", "[::1]")
    return (f"[{host}]" if ":" in host else host,)


def _host_name() -> str:
    allowed = "._-"
    name = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in allowed) else "-"
        for letter in socket.gethostname()
    )
    return name.strip(allowed)[:100] or "node"
