"""Asking the system for the addresses of a name, and what it means by its errors."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from fencepost.errors import FencepostError
from fencepost.outcomes import clean_text
from worker.local_faults import LocalFaultError, is_local_fault


class LookupFailedError(FencepostError):
    """The name has no address, or its name servers did not answer in time."""


def look_up(host: str) -> Sequence[str]:
    """Ask the system; it may take as long as the system's own timeouts."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def explain(host: str, error: Exception) -> FencepostError:
    """Say whether a look-up that ended in an exception tells of the name or of this machine."""
    if is_local_fault(error) or not _can_open_sockets():
        return LocalFaultError(f"{host} was not looked up: this machine is out of resources")
    if isinstance(error, socket.gaierror) and error.errno == socket.EAI_MEMORY:
        return LocalFaultError(f"{host} was not looked up: out of memory")
    if isinstance(error, UnicodeError):
        return LookupFailedError(f"{host} is no name that can be looked up")
    why = error.strerror if isinstance(error, OSError) else type(error).__name__
    return LookupFailedError(f"{host} could not be resolved: {clean_text(why or 'failed')}")


def _can_open_sockets() -> bool:
    """Tell the system's "no such name" from "no descriptor left to ask with"."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
    except OSError:
        return False
    return True
