"""From a host name to addresses that may be called: bounded, shared and judged."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from fencepost.egress import Network, refusal
from fencepost.endpoints import known_address
from fencepost.errors import FencepostError
from fencepost.outcomes import clean_text
from worker.local_faults import LocalFaultError, is_local_fault

_SLOW_FOR: Final = 300.0
_MAX_REMEMBERED: Final = 4096


class LookupFailedError(FencepostError):
    """The name has no address, or its name servers did not answer in time."""


class AddressForbiddenError(FencepostError):
    """The name leads to an address that must not be called."""


def look_up(host: str) -> Sequence[str]:
    """Ask the system; it may take as long as the system's own timeouts."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class _Lookup:
    """One question to the system, and all who wait for its answer."""

    def __init__(self, asked_at: float) -> None:
        self.asked_at = asked_at
        self.is_answered = threading.Event()
        self.addresses: tuple[str, ...] = ()
        self.failure: FencepostError | None = None


class _Recent:
    """What went wrong with hosts lately."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._failures: dict[str, tuple[float, FencepostError]] = {}

    def note(self, host: str, failure: FencepostError) -> None:
        self._failures.pop(host, None)
        self._failures[host] = (time.monotonic() + self._seconds, failure)
        if len(self._failures) > _MAX_REMEMBERED:
            del self._failures[next(iter(self._failures))]

    def forget(self, host: str) -> None:
        self._failures.pop(host, None)

    def get(self, host: str) -> FencepostError | None:
        until, failure = self._failures.get(host, (0.0, None))
        return failure if time.monotonic() < until else None


class Resolver:
    """Looks names up for every transport of a process.

    ``getaddrinfo`` has no timeout and cannot be cancelled, so each question runs in a daemon
    thread of its own and is abandoned when its time is up. One question per host is open at a
    time: who asks for the same host waits for the same answer, or learns at once that its time
    is up. Hosts that hung lately share half of the threads, so that dead name servers leave the
    other half to names that answer.

    Args:
        allow_networks: exemptions from the address ban.
        budget: seconds within which an answer counts.
        max_lookups: questions, and so threads, open at once.
        remember: seconds for which a failure is not asked about again.
        look_up: answers a host name with addresses, or raises OSError.
    """

    def __init__(
        self,
        *,
        allow_networks: Iterable[Network] = (),
        budget: float = 3.0,
        max_lookups: int = 128,
        remember: float = 2.0,
        look_up: Callable[[str], Sequence[str]] = look_up,
    ) -> None:
        self._allow_networks = tuple(allow_networks)
        self._budget = budget
        self._max_lookups = max_lookups
        self._look_up = look_up
        self._changed = threading.Condition()
        self._open: dict[str, _Lookup] = {}
        self._failed = _Recent(remember)
        self._slow = _Recent(_SLOW_FOR)

    def resolve(self, host: str, *, within: float) -> tuple[str, ...]:
        """Give all addresses of a host, numeric, each of them fit to be called.

        Args:
            host: a name or a numeric address.
            within: seconds that are left for it; the budget may be less.

        Raises:
            LookupFailedError: no address, or not in time.
            AddressForbiddenError: at least one of the addresses is forbidden. The others are not
                used: an answer that mixes them is an attack or a mistake.
            LocalFaultError: this machine cannot ask, or too many other names hang.
        """
        known = known_address(host)
        addresses = (known,) if known is not None else self._ask(host, min(within, self._budget))
        for address in addresses:
            why = refusal(address, allow_networks=self._allow_networks)
            if why is not None:
                raise AddressForbiddenError(f"{host} leads to {clean_text(address)}, {why}")
        return addresses

    @property
    def open_lookups(self) -> int:
        """How many questions wait for the system's answer, abandoned ones included."""
        return len(self._open)

    def _ask(self, host: str, within: float) -> tuple[str, ...]:
        gives_up_at = time.monotonic() + within
        with self._changed:
            failure = self._failed.get(host)
            if failure is not None:
                raise _again(failure)
            lookup = self._open.get(host)
            if lookup is None:
                room = self._changed.wait_for(
                    lambda: host in self._open or self._has_room(host),
                    gives_up_at - time.monotonic(),
                )
                if not room:
                    raise LocalFaultError(f"{host} was not looked up: too many other names hang")
                lookup = self._open.get(host) or self._start(host)
        ends_at = min(gives_up_at, lookup.asked_at + self._budget)
        if not lookup.is_answered.wait(max(0.0, ends_at - time.monotonic())):
            failure = LookupFailedError(f"{host} could not be resolved in time")
            with self._changed:
                self._slow.note(host, failure)
            raise _again(failure)
        if lookup.failure is not None:
            raise _again(lookup.failure)
        return lookup.addresses

    def _has_room(self, host: str) -> bool:
        is_slow = self._slow.get(host) is not None
        return len(self._open) < (self._max_lookups // 2 if is_slow else self._max_lookups)

    def _start(self, host: str) -> _Lookup:
        lookup = _Lookup(time.monotonic())
        thread = threading.Thread(
            target=self._answer, args=(host, lookup), name=f"lookup {host[:40]}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # can't start new thread
            raise LocalFaultError("no thread for a look-up could be started") from None
        self._open[host] = lookup
        return lookup

    def _answer(self, host: str, lookup: _Lookup) -> None:
        try:
            lookup.addresses = tuple(dict.fromkeys(self._look_up(host)))
            if not lookup.addresses:
                lookup.failure = LookupFailedError(f"{host} has no address")
        except Exception as error:  # noqa: BLE001 - whoever waits has to hear of it
            lookup.failure = _failure(host, error)
        with self._changed:
            del self._open[host]
            if isinstance(lookup.failure, LookupFailedError):
                self._failed.note(host, lookup.failure)
            elif time.monotonic() < lookup.asked_at + self._budget:
                self._slow.forget(host)
            self._changed.notify_all()
        lookup.is_answered.set()


def _again(failure: FencepostError) -> FencepostError:
    """Copy an error for each who is told: one that is raised again drags its tracebacks along."""
    return type(failure)(*failure.args)


def _failure(host: str, error: Exception) -> FencepostError:
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
