"""What the curl transport's one thread waits for: sockets, times, and word from other threads."""

from __future__ import annotations

import heapq
import itertools
import logging
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pycurl

log = logging.getLogger(__name__)

_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE

Act = Callable[[], None]
Opened = Callable[[tuple[int, str] | None], None]


class Timer:
    """Something to be done at a time, unless it is cancelled before."""

    def __init__(self, act: Act) -> None:
        self.act: Act | None = act

    def cancel(self) -> None:
        """Let it not happen."""
        self.act = None


class CurlLoop:
    """Drives libcurl's multi handle while it opens connections, and watches those that are open.

    Everything but ``post`` belongs to the one thread that calls ``turn``.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._inbox: deque[Act] = deque()
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        self._has_rung = False
        self._selector.register(self._ear, _READ, self._hear)
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._opening: dict[pycurl.Curl, Opened] = {}
        self._curl_due = float("inf")
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._follow_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._follow_timer)

    def post(self, act: Act) -> None:
        """Have something done by the loop's thread; from any thread."""
        self._inbox.append(act)
        if not self._has_rung:
            self._has_rung = True
            with suppress(BlockingIOError):  # then it has much to hear already
                self._bell.send(b"\0")

    def at(self, when: float, act: Act) -> Timer:
        """Have something done at a time of the monotonic clock."""
        timer = Timer(act)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def open(self, handle: pycurl.Curl, opened: Opened) -> None:
        """Let libcurl open a connection; ``opened`` gets None, or its error code and words."""
        self._multi.add_handle(handle)
        self._opening[handle] = opened

    def close_handle(self, handle: pycurl.Curl) -> None:
        """Take a handle away from libcurl, which closes its connection."""
        self._opening.pop(handle, None)
        self._multi.remove_handle(handle)

    def watch(self, fd: int, ready: Act, *, writing: bool = False) -> None:
        """Call ``ready`` whenever an open connection can be read from, or written to as well."""
        self._set(fd, _READ | _WRITE if writing else _READ, ready)

    def unwatch(self, fd: int) -> None:
        """Let a connection be, before it is closed."""
        with suppress(KeyError):
            self._selector.unregister(fd)

    def turn(self, until: float) -> None:
        """Wait for anything to happen, at most until a time, and do what there is to do."""
        next_timer = self._timers[0][0] if self._timers else until
        wait = min(until, next_timer, self._curl_due) - time.monotonic()
        has_curl_moved = False
        for key, events in self._selector.select(0 if self._inbox else max(0.0, wait)):
            if key.data is None:
                self._multi.socket_action(key.fd, _as_curl(events))
                has_curl_moved = True
            else:
                _do(key.data)
        now = time.monotonic()
        if self._curl_due <= now:
            self._curl_due = float("inf")
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
            has_curl_moved = True
        if has_curl_moved:
            self._tell_opened()
        for _ in range(len(self._inbox)):
            _do(self._inbox.popleft())
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if timer.act is not None:
                _do(timer.act)

    def close(self) -> None:
        """Close everything; no connection of it is usable after that."""
        for handle in self._opening:
            self._multi.remove_handle(handle)
        self._multi.close()
        self._selector.close()
        self._bell.close()
        self._ear.close()

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            self._ear.recv(64)
        # Only then: who rings meanwhile is heard here, and must not count as still to be heard.
        # What was posted until now without ringing is done in this turn.
        self._has_rung = False

    def _tell_opened(self) -> None:
        while True:
            left, opened, failed = self._multi.info_read()
            for handle in opened:
                self._tell(handle, None)
            for handle, code, words in failed:
                self._tell(handle, (code, words))
            if not left:
                return

    def _tell(self, handle: pycurl.Curl, error: tuple[int, str] | None) -> None:
        opened = self._opening.pop(handle, None)
        if opened is not None:
            _do(lambda: opened(error))

    def _follow_socket(self, what: int, fd: int, _multi: object, _data: object) -> None:
        """Watch a socket for libcurl, as it says."""
        if what != pycurl.POLL_REMOVE:
            reading = _READ if what & pycurl.POLL_IN else 0
            self._set(fd, reading | (_WRITE if what & pycurl.POLL_OUT else 0), None)
            return
        with suppress(KeyError):
            if self._selector.get_key(fd).data is None:  # else it is open, and ours by now
                self._selector.unregister(fd)

    def _follow_timer(self, milliseconds: int) -> None:
        """Remember when libcurl wants to be called; negative: not any more."""
        is_set = milliseconds >= 0
        self._curl_due = time.monotonic() + milliseconds / 1000 if is_set else float("inf")

    def _set(self, fd: int, events: int, data: Any) -> None:  # noqa: ANN401 - the selector's
        try:
            self._selector.modify(fd, events, data)
        except KeyError:
            self._selector.register(fd, events, data)


def _as_curl(events: int) -> int:
    return (pycurl.CSELECT_IN if events & _READ else 0) | (
        pycurl.CSELECT_OUT if events & _WRITE else 0
    )


def _do(act: Act) -> None:
    """Do something that must not end the loop; a request it concerns still has its deadline."""
    try:
        act()
    except Exception:
        log.exception("transport.act_failed")
