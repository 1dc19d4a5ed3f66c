"""Waiting for something that another process or thread does: one way, one time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT = 30.0
"""Seconds; far more than anything takes on a busy machine."""


def eventually(condition: Callable[[], T], *, within: float = LIMIT) -> T:
    """Call ``condition`` until what it returns is true, and give that back."""
    until = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < until, f"not within {within:g} s: {condition}"
        threading.Event().wait(0.02)
    return found
