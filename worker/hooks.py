"""Named moments in a worker's life: nothing happens at them, unless a test listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MOMENTS: Final = frozenset(
    {
        "fanned_out",
        "claimed",
        "attempted",
        "answered",
        "settled",
        "beat",
        "reaped",
    }
)
"""Each is reached right after its statement has committed, or its answer was read."""

Listener = Callable[[object], None]
_listeners: dict[str, Listener] = {}


def listen(moment: str, listener: Listener) -> None:
    """Call ``listener`` whenever the worker reaches ``moment``, in the thread that reaches it."""
    if moment not in MOMENTS:
        raise ValueError(f"no moment is called {moment!r}")
    _listeners[moment] = listener


def reach(moment: str, what: object) -> None:
    """Say that a moment is reached."""
    if _listeners and (listener := _listeners.get(moment)):
        listener(what)
