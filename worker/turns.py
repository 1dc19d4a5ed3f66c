"""Several steps in one loop, and on one connection, each in its turn."""

from __future__ import annotations

from collections import deque

from worker.loop import Step


class Turns:
    """Call all steps, one after the other.

    Each must know by itself whether it has something to do: it is called as often as the
    most eager of them wants.

    Args:
        steps: at least one.
    """

    def __init__(self, *steps: Step) -> None:
        self._steps = deque(steps)

    def __call__(self) -> float:
        """Call each once; give the shortest wait."""
        waits = []
        for _ in range(len(self._steps)):
            step = self._steps[0]
            # Before the call: when it fails, the others come first next time.
            self._steps.rotate(-1)
            waits.append(step())
        return min(waits)
