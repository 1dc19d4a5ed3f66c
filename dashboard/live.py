"""The hub: one thread per process reads what changed and wakes the streams that show it.

A stream carries signals, never content: the page then asks for the region again, where
permissions are checked and ETags make a needless answer cheap. So a signal may come
twice, and a lost one is mended by the next ``resync``.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from dashboard.signals import Found, Signals, Viewer, Wanted, signals, wanted_by
from fencepost.errors import FencepostError

log = logging.getLogger(__name__)

_AFTER_FAILURE: Final = 5.0


class Source(Protocol):
    """Where the hub looks."""

    def look(self, wanted: Wanted) -> Found:
        """Compare with the look before; raises FencepostError while the database is away."""

    def forget(self) -> None:
        """Start anew: the next look has nothing to compare with."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a stream is to write.

    Attributes:
        signals: event name to data, each name once.
        mark: the id of these events: a stream that resumes from it misses nothing after them.
        is_over: the stream is to end.
    """

    signals: Signals = field(default_factory=dict)
    mark: int | None = None
    is_over: bool = False


class Hub:
    """Looks for changes while somebody watches, and for nothing while nobody does.

    Args:
        source: what it reads.
        limit: streams at a time; each one holds a thread of the server.
        interval: seconds between two looks.
    """

    def __init__(self, source: Source, *, limit: int = 40, interval: float = 0.5) -> None:
        self._source = source
        self._limit = limit
        self._interval = interval
        self._viewers: set[Viewer] = set()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._clock: tuple[datetime, float] | None = None

    def join(
        self, topics: frozenset[str], *, mark: int | None = None, session: bytes | None = None
    ) -> Viewer | None:
        """Open a stream; None when there are as many as this process may have.

        Args:
            topics: what its page shows.
            mark: of the last event that the page has had, from whichever process: it is told
                what came since. None, or one from too long ago: its first signal is ``resync``,
                which covers what changed since the page was made.
            session: the key of the login; the stream is over when that is.
        """
        with self._changed:
            if len(self._viewers) >= self._limit or self._stopping.is_set():
                return None
            viewer = Viewer(topics, mark=mark, session=session)
            self._viewers.add(viewer)
            if self._thread is None:  # not earlier: a thread does not survive gunicorn's fork
                self._thread = threading.Thread(target=self._run, name="live-hub", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return viewer

    def leave(self, viewer: Viewer) -> None:
        """Close a stream; closing it twice does nothing."""
        with self._changed:
            self._viewers.discard(viewer)

    def wait(self, viewer: Viewer, *, seconds: float) -> Told:
        """Wait for signals, and take what came."""
        with self._changed:
            self._changed.wait_for(
                lambda: bool(viewer.pending) or viewer.is_over or self._stopping.is_set(),
                timeout=seconds,
            )
            told, viewer.pending = viewer.pending, {}
            return Told(told, viewer.mark, viewer.is_over or self._stopping.is_set())

    def now(self) -> datetime | None:
        """Give the database's clock as of now; None before the first look."""
        if self._clock is None:
            return None
        seen, at = self._clock
        return seen + timedelta(seconds=time.monotonic() - at)

    @property
    def viewers(self) -> int:
        """How many streams are open."""
        return len(self._viewers)

    def stop(self) -> None:
        """End all streams, within one interval."""
        self._stopping.set()

    def close(self) -> None:
        """End all streams and wait until the last look is over: it holds a connection."""
        self.stop()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        watched = True
        while not self._stopping.is_set():
            with self._changed:
                if not self._viewers:
                    if watched:
                        self._source.forget()
                        watched = False
                    self._changed.wait(timeout=self._interval)
                    continue
                watched = True
                viewers = tuple(self._viewers)
            self._stopping.wait(self._interval if self._tell(viewers) else _AFTER_FAILURE)
        with self._changed:
            self._changed.notify_all()

    def _tell(self, viewers: tuple[Viewer, ...]) -> bool:
        """Look once and give every viewer what concerns it; False when the look failed."""
        try:
            found = self._source.look(wanted_by(viewers))
        except Exception as error:  # a hub that ended would freeze every page
            is_outage = isinstance(error, FencepostError)
            log.warning("live.look_failed reason=%s", error, exc_info=not is_outage)
            self._source.forget()
            with self._changed:  # whoever stays until it works again has missed something
                for viewer in viewers:
                    viewer.is_new, viewer.mark = True, None
            return False
        self._clock = (found.now, time.monotonic())
        with self._changed:
            for viewer in viewers:
                viewer.pending.update(signals(found, viewer))
                viewer.is_new, viewer.mark = False, found.mark
                viewer.is_over = viewer.session in found.over
            self._changed.notify_all()
        return True
