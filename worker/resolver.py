"""From a host name to addresses that may be called: bounded, shared and judged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from fencepost.egress import Network, refusal
from fencepost.endpoints import known_address
from fencepost.errors import FencepostError
from fencepost.outcomes import clean_text
from worker.local_faults import LocalFaultError
from worker.recent_failures import RecentFailures
from worker.system_lookup import LookupFailedError, explain, look_up

_SLOW_FOR: Final = 300.0


class AddressForbiddenError(FencepostError):
    """The name leads to an address that must not be called."""


class Lookup:
    """One question to the system, and all who wait for its answer.

    Attributes:
        is_answered: set once there are addresses, or a failure.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.is_answered = threading.Event()
        self.asked_at: float | None = None  # None while it waits for a thread
        self.addresses: tuple[str, ...] = ()
        self.failure: FencepostError | None = None
        self.to_tell: list[Callable[[], None]] = []
        self.waiting = 0


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
        max_lookups: questions, and so threads, open at once; names that never hung before may
            take all of them, so it is well above what dies together.
        remember: seconds for which a failure is not asked about again.
        look_up: answers a host name with addresses, or raises OSError.
    """

    def __init__(
        self,
        *,
        allow_networks: Iterable[Network] = (),
        budget: float = 3.0,
        max_lookups: int = 512,
        remember: float = 2.0,
        look_up: Callable[[str], Sequence[str]] = look_up,
    ) -> None:
        self._allow_networks = tuple(allow_networks)
        self._budget = budget
        self._max_lookups = max_lookups
        self._look_up = look_up
        self._lock = threading.Lock()
        self._open: dict[str, Lookup] = {}
        self._queue: dict[str, Lookup] = {}
        self._failed = RecentFailures(remember)
        self._slow = RecentFailures(_SLOW_FOR)

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
        lookup = self.begin(host)
        ends_at = self.ends_at(lookup, within=within)
        lookup.is_answered.wait(max(0.0, ends_at - time.monotonic()))
        return self.finish(lookup)

    def begin(self, host: str, tell: Callable[[], None] | None = None) -> Lookup:
        """Ask, or join whoever has asked already; never blocks.

        Each look-up that was begun is ended by ``finish``, at ``ends_at`` or before, or by
        ``leave``.

        Args:
            host: a name or a numeric address.
            tell: called once, from another thread, when the answer is there; not called when it
                is there already.

        Raises:
            LookupFailedError: it failed a moment ago.
            LocalFaultError: this machine cannot ask.
        """
        known = known_address(host)
        if known is not None:
            lookup = Lookup(host)
            lookup.addresses = (known,)
            lookup.is_answered.set()
            return lookup
        with self._lock:
            failure = self._failed.get(host)
            if failure is not None:
                raise _again(failure)
            found = self._open.get(host) or self._queue.get(host)
            lookup = found or self._ask(Lookup(host))
            lookup.waiting += 1
            if tell is not None:
                lookup.to_tell.append(tell)
            return lookup

    def ends_at(self, lookup: Lookup, *, within: float) -> float:
        """Say until when to wait for an answer, on the monotonic clock.

        The budget runs from when the system was asked, not from when somebody joined.
        """
        now = time.monotonic()
        since = now if lookup.asked_at is None else lookup.asked_at
        return min(now + within, since + self._budget)

    def finish(self, lookup: Lookup) -> tuple[str, ...]:
        """Take the answer, or give up waiting for it; the errors are those of ``resolve``."""
        if not lookup.is_answered.is_set():
            self._give_up(lookup)
        if lookup.failure is not None:
            raise _again(lookup.failure)
        for address in lookup.addresses:
            why = refusal(address, allow_networks=self._allow_networks)
            if why is not None:
                raise AddressForbiddenError(f"{lookup.host} leads to {clean_text(address)}, {why}")
        return lookup.addresses

    def leave(self, lookup: Lookup) -> None:
        """Lose interest in an answer, whatever it will be."""
        with self._lock:
            lookup.waiting -= 1
            if not lookup.waiting:
                lookup.to_tell.clear()
                if lookup.asked_at is None:
                    self._queue.pop(lookup.host, None)

    @property
    def open_lookups(self) -> int:
        """How many questions wait for the system's answer, abandoned ones included."""
        return len(self._open)

    def _give_up(self, lookup: Lookup) -> None:
        host = lookup.host
        self.leave(lookup)
        with self._lock:
            if lookup.is_answered.is_set():
                return
            if lookup.asked_at is None:
                raise LocalFaultError(f"{host} was not looked up: too many other names hang")
            failure = LookupFailedError(f"{host} could not be resolved in time")
            self._slow.note(host, failure)
        raise _again(failure)

    def _ask(self, lookup: Lookup) -> Lookup:
        if not self._has_room(lookup.host):
            self._queue[lookup.host] = lookup
            return lookup
        lookup.asked_at = time.monotonic()
        name = f"lookup {lookup.host[:40]}"
        try:
            threading.Thread(target=self._answer, args=(lookup,), name=name, daemon=True).start()
        except RuntimeError:  # can't start new thread
            raise LocalFaultError("no thread for a look-up could be started") from None
        self._open[lookup.host] = lookup
        return lookup

    def _has_room(self, host: str) -> bool:
        is_slow = self._slow.get(host) is not None
        return len(self._open) < (self._max_lookups // 2 if is_slow else self._max_lookups)

    def _answer(self, lookup: Lookup) -> None:
        host = lookup.host
        try:
            lookup.addresses = tuple(dict.fromkeys(self._look_up(host)))
            if not lookup.addresses:
                lookup.failure = LookupFailedError(f"{host} has no address")
        except Exception as error:  # noqa: BLE001 - whoever waits has to hear of it
            lookup.failure = explain(host, error)
        with self._lock:
            del self._open[host]
            if isinstance(lookup.failure, LookupFailedError):
                self._failed.note(host, lookup.failure)
            elif lookup.asked_at is None or time.monotonic() < lookup.asked_at + self._budget:
                self._slow.forget(host)
            answered = [lookup, *self._ask_next()]
            for one in answered:
                one.is_answered.set()
        for one in answered:
            for tell in one.to_tell:
                tell()

    def _ask_next(self) -> list[Lookup]:
        """Ask what waits, as far as there is room; give those that no thread could be had for."""
        failed = []
        for host, lookup in list(self._queue.items()):
            if len(self._open) >= self._max_lookups:
                break
            if self._has_room(host):
                del self._queue[host]
                try:
                    self._ask(lookup)
                except LocalFaultError as failure:
                    lookup.failure = failure
                    failed.append(lookup)
        return failed


def _again(failure: FencepostError) -> FencepostError:
    """Copy an error for each who is told: one that is raised again drags its tracebacks along."""
    return type(failure)(*failure.args)
