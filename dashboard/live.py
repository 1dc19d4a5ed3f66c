"""The hub: one thread per process reads what changed and wakes the streams that show it.

A stream carries signals, never content: the page then asks for the region again, where
permissions are checked and ETags make a needless answer cheap. So a signal may come
twice, and a lost one is mended by the next ``resync``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Protocol
from uuid import UUID

from fencepost.errors import FencepostError

log = logging.getLogger(__name__)

DELIVERY: Final = "delivery:"
REPLAY: Final = "replay:"
_AFTER_FAILURE: Final = 5.0


@dataclass(frozen=True, slots=True)
class Changes:
    """What a look at the database found.

    Attributes:
        now: the database's clock at that look.
        moved: whether the trail has rows that no look before had seen.
        died: how many of them say that a delivery entered the DLQ.
        queue_changed: whether anything entered or left the DLQ.
        deliveries: of the watched ones that changed since the last look: id to signal.
        replays: likewise.
    """

    now: datetime
    moved: bool = False
    died: int = 0
    queue_changed: bool = False
    deliveries: Mapping[UUID, Mapping[str, Any]] = field(default_factory=dict)
    replays: Mapping[UUID, Mapping[str, Any]] = field(default_factory=dict)


class Source(Protocol):
    """Where the hub looks."""

    def look(self, *, deliveries: frozenset[UUID], replays: frozenset[UUID]) -> Changes:
        """Compare with the look before; raises FencepostError while the database is away."""

    def forget(self) -> None:
        """Start anew: the next look has nothing to compare with."""


@dataclass(eq=False, slots=True)
class Viewer:
    """One open stream: what it watches, and what it has yet to be told."""

    topics: frozenset[str]
    pending: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    is_new: bool = True

    def ids(self, prefix: str) -> frozenset[UUID]:
        """Give the deliveries or replays among the topics."""
        return frozenset(
            UUID(topic.removeprefix(prefix)) for topic in self.topics if topic.startswith(prefix)
        )


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

    def join(self, topics: frozenset[str]) -> Viewer | None:
        """Open a stream; None when there are as many as this process may have.

        Its first signal is ``resync``: it covers what changed since its page was made.
        """
        with self._changed:
            if len(self._viewers) >= self._limit or self._stopping.is_set():
                return None
            viewer = Viewer(topics)
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

    def wait(self, viewer: Viewer, *, seconds: float) -> Mapping[str, Mapping[str, Any]]:
        """Wait for signals; give what came: event name to data, each name once."""
        with self._changed:
            self._changed.wait_for(
                lambda: bool(viewer.pending) or self._stopping.is_set(), timeout=seconds
            )
            told, viewer.pending = viewer.pending, {}
            return told

    def now(self) -> datetime | None:
        """Give the database's clock as of now; None before the first look."""
        if self._clock is None:
            return None
        seen, at = self._clock
        return seen + timedelta(seconds=time.monotonic() - at)

    @property
    def is_stopping(self) -> bool:
        """Whether the server is going down: streams end."""
        return self._stopping.is_set()

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
        deliveries = frozenset[UUID]().union(*(viewer.ids(DELIVERY) for viewer in viewers))
        replays = frozenset[UUID]().union(*(viewer.ids(REPLAY) for viewer in viewers))
        try:
            found = self._source.look(deliveries=deliveries, replays=replays)
        except Exception as error:  # a hub that ended would freeze every page
            is_outage = isinstance(error, FencepostError)
            log.warning("live.look_failed reason=%s", error, exc_info=not is_outage)
            self._source.forget()
            with self._changed:  # whoever stays until it works again has missed something
                for viewer in viewers:
                    viewer.is_new = True
            return False
        self._clock = (found.now, time.monotonic())
        with self._changed:
            for viewer in viewers:
                viewer.pending.update(signals(found, viewer))
                viewer.is_new = False
            self._changed.notify_all()
        return True


def signals(found: Changes, viewer: Viewer) -> dict[str, Mapping[str, Any]]:
    """Choose what a viewer is told; several changes of one kind become one signal."""
    if viewer.is_new:
        return {"resync": {}}
    told: dict[str, Mapping[str, Any]] = {}
    if found.moved and "overview" in viewer.topics:
        told["overview"] = {}
    if found.queue_changed and "dlq" in viewer.topics:
        told["dlq"] = {"delta": found.died}
    for changed in sorted(viewer.ids(DELIVERY) & found.deliveries.keys()):
        told["delivery"] = found.deliveries[changed]
    for changed in sorted(viewer.ids(REPLAY) & found.replays.keys()):
        told["replay"] = found.replays[changed]
    return told
