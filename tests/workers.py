"""A whole worker in a thread of the test's own process."""

from __future__ import annotations

import threading
from typing import Self

from worker.build import Worker


class WorkerThread:
    """Runs from ``with`` on; what it was asked to do is over when it is left."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.stop = threading.Event()
        self.status: int | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.status = self.worker.run(self.stop)
        except Exception as error:  # noqa: BLE001 - told to the test
            self.error = error

    def end(self) -> int | None:
        """Stop it, and give its exit status."""
        self.stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.status

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
