"""What a look at the database found, and which of it each open page is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

DELIVERY: Final = "delivery:"
REPLAY: Final = "replay:"

Signals: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Event name to data; several changes of one kind are one signal."""


@dataclass(eq=False, slots=True)
class Viewer:
    """One open stream: what it watches, and what it has yet to be told.

    Attributes:
        topics: what its page shows.
        mark: where it stands: everything before it was told. None: nowhere.
        session: the key of the login; None: it has none that could end.
        pending: signals that it has not written yet.
        is_new: no look has told it anything.
        is_over: its login has ended.
    """

    topics: frozenset[str]
    mark: int | None = None
    session: bytes | None = None
    pending: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    is_new: bool = True
    is_over: bool = False

    def ids(self, prefix: str) -> frozenset[UUID]:
        """Give the deliveries or replays among the topics."""
        return frozenset(
            UUID(topic.removeprefix(prefix)) for topic in self.topics if topic.startswith(prefix)
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the viewers together want to know.

    Attributes:
        deliveries: that they watch.
        replays: that they watch.
        sessions: their logins.
        since: the oldest mark of those who resume; None: nobody does.
    """

    deliveries: frozenset[UUID] = frozenset()
    replays: frozenset[UUID] = frozenset()
    sessions: frozenset[bytes] = frozenset()
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Trail:
    """What is new in the trail.

    Attributes:
        moved: whether anything is.
        died: how many deliveries entered the DLQ.
        queue_changed: whether any entered or left it.
    """

    moved: bool = False
    died: int = 0
    queue_changed: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What a look at the database found.

    Attributes:
        now: the database's clock at that look.
        mark: where those who are told of it stand then.
        trail: what is new since the look before.
        resumed: what is new since ``Wanted.since``; None: too much, or nobody asked.
        watched: the data of every watched delivery and replay.
        changed: those of them that changed since the look before.
        over: sessions that have ended.
    """

    now: datetime
    mark: int
    trail: Trail = field(default_factory=Trail)
    resumed: Trail | None = None
    watched: Mapping[UUID, Mapping[str, Any]] = field(default_factory=dict)
    changed: frozenset[UUID] = frozenset()
    over: frozenset[bytes] = frozenset()


def wanted_by(viewers: Iterable[Viewer]) -> Wanted:
    """Put together what a look has to find out.

    Those who resume share one mark, the oldest of theirs: to be told twice does no harm.
    """
    all_of_them = tuple(viewers)
    none: frozenset[UUID] = frozenset()
    marks = [viewer.mark for viewer in all_of_them if viewer.is_new and viewer.mark is not None]
    return Wanted(
        deliveries=none.union(*(viewer.ids(DELIVERY) for viewer in all_of_them)),
        replays=none.union(*(viewer.ids(REPLAY) for viewer in all_of_them)),
        sessions=frozenset(viewer.session for viewer in all_of_them if viewer.session is not None),
        since=min(marks, default=None),
    )


def signals(found: Found, viewer: Viewer) -> dict[str, Mapping[str, Any]]:
    """Choose what a viewer is told.

    Who resumes is told of the delivery and the replay that it watches in any case: their pages
    show more than the trail.
    """
    trail = found.resumed if viewer.is_new else found.trail
    if trail is None or (viewer.is_new and viewer.mark is None):
        return {"resync": {}}
    told: dict[str, Mapping[str, Any]] = {}
    if trail.moved and "overview" in viewer.topics:
        told["overview"] = {}
    if trail.queue_changed and "dlq" in viewer.topics:
        told["dlq"] = {"delta": trail.died}
    for name, prefix in (("delivery", DELIVERY), ("replay", REPLAY)):
        watched = viewer.ids(prefix) & found.watched.keys()
        for id_ in sorted(watched if viewer.is_new else watched & found.changed):
            told[name] = found.watched[id_]
    return told
