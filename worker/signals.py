"""What a signal means: the first asks the worker to finish, the second to leave."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType


def install(stop: threading.Event) -> None:
    """Set ``stop`` on SIGTERM or SIGINT; on the second, leave at once with status 1.

    Leases that are left behind run out and are taken back by another worker.
    """

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
