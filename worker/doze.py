"""How long the fan-out may look away from an empty outbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from psycopg import Connection

from fencepost.store import doorbell
from fencepost.store.doorbell import Look

IDLE_SECONDS: Final = 0.1
"""Between looks while no ring would be heard."""

SLEEPING_SECONDS: Final = 1.0
"""Between looks while a ring would be: what a broken bell misses is found by then."""

MARK_SECONDS: Final = 3
"""How long the mark holds without being renewed: a worker that died has nobody ring for long."""

SHORTEST_SECONDS: Final = 0.005


class Doze:
    """Sleep until a producer rings, without missing one.

    Producers ring only while somebody has marked that he sleeps: a commit with a NOTIFY takes
    a lock of the whole database, so that under load nobody may. Whether to ring is decided when
    the event is inserted, and the event appears when its transaction commits, which can be much
    later. So a mark and one more look are not enough: an event may have been inserted before
    the mark and be committed after the look. What is done about it:

    1. Mark, and only then take a transaction id of our own.
    2. Look, until no transaction with a lower id is under way; then sleep.

    An insert that did not see the mark came before it. By then its transaction had an id, for
    the trigger that decides runs after the insert. So its id is lower than ours, and the look of
    step 2, whose snapshot says who is under way, sees the event or that it never was. Every
    other insert sees the mark, and rings as it commits; the bell's connection has listened since
    before the mark. The mark is a sequence: reading and setting it is outside of transactions, so
    that no snapshot, however old, hides it (REPEATABLE READ), and what was set is seen at once.

    Only a worker that is about to fan out takes the mark away, and it looks again after that,
    and goes through both steps before it sleeps: what comes without a ring while others sleep
    is its to find. If it dies in between, or the bell breaks unnoticed, the others find
    it at their next look, ``SLEEPING_SECONDS`` later at most. A transaction that stays open for
    hours costs a look every ``IDLE_SECONDS``, and nothing else.

    Args:
        bell_works: whether a ring would be heard.
        clock: seconds that only rise.
    """

    def __init__(self, *, bell_works: Callable[[], bool], clock: Callable[[], float]) -> None:
        self._bell_works = bell_works
        self._clock = clock
        self._fell_asleep: int | None = None
        self._marked_at = 0.0
        self._pause = SHORTEST_SECONDS

    def rest(self, conn: Connection[Any], seen: Look) -> float:
        """Say when to look again after a look that found nothing.

        Args:
            conn: in autocommit.
            seen: that look.
        """
        if not self._bell_works():
            self.stir()
            return IDLE_SECONDS
        now = self._clock()
        if self._fell_asleep is None:
            self._fell_asleep = doorbell.fall_asleep(conn, seconds=MARK_SECONDS)
            self._marked_at, self._pause = now, SHORTEST_SECONDS
            return 0
        if now - self._marked_at >= SLEEPING_SECONDS / 2:
            doorbell.stay_asleep(conn, seconds=MARK_SECONDS)
            self._marked_at = now
        if seen.oldest_running > self._fell_asleep:
            return SLEEPING_SECONDS
        self._pause = min(IDLE_SECONDS, 2 * self._pause)
        return self._pause

    def rouse(self, conn: Connection[Any], seen: Look) -> None:
        """Let nobody ring: there is something to do, and this worker does it.

        Args:
            conn: whatever happens to its transaction, this stays.
            seen: the look that found it.
        """
        self.stir()
        if seen.is_marked:
            doorbell.wake_up(conn)

    def stir(self) -> None:
        """Forget having marked anything: the next rest begins anew."""
        self._fell_asleep = None
