"""``python -P -m dashboard``: gunicorn with threads, as the settings say."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.workers.gthread import ThreadWorker

from dashboard import create_app
from dashboard.api.repeated import join_repeated
from dashboard.models import db
from dashboard.runtime import Runtime
from fencepost.embedded import database
from fencepost.errors import FencepostError
from fencepost.settings import Settings

PROCESSES: Final = 2
THREADS: Final = 64
STREAMS: Final = 40
"""Of each process: the other threads are always free for requests."""

_OPTIONS: Final[Mapping[str, object]] = {
    "worker_class": "gthread",
    "workers": PROCESSES,
    "threads": THREADS,
    "worker_connections": 1000,
    "timeout": 30,
    "graceful_timeout": 10,
    "keepalive": 5,
    # Nothing is opened before the fork, and nothing shared after it.
    "preload_app": False,
    "limit_request_line": 4094,
    "forwarded_allow_ips": "",  # ProxyFix reads these headers, with an exact number of hops
    "proc_name": "fencepost dashboard",
    "control_socket_disable": True,
}
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn inside this process, so that no folder on its path can shadow the package."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        """Set what gunicorn would read from its command line."""
        hooks = {
            "post_worker_init": end_streams_on_signals,
            "pre_request": join_repeated,
            "worker_exit": close_pool,
        }
        for name, value in {**_OPTIONS, **hooks, "bind": str(self._settings.bind)}.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """Make the application, in each worker process after the fork."""
        return create_app(self._settings, streams=STREAMS)


def end_streams_on_signals(worker: ThreadWorker) -> None:
    """Let live streams end at once when the server is told to: each one holds a thread.

    Without this gunicorn waits for them until its graceful timeout, and cuts them.
    """
    found: Runtime = worker.wsgi.extensions["fencepost"]

    def wrap(number: int) -> None:
        inner: Any = signal.getsignal(number)

        def end(signum: int, frame: FrameType | None) -> None:
            # From another thread: this one may be holding the lock that the event needs.
            threading.Thread(target=found.hub.stop, daemon=True).start()
            if callable(inner):
                inner(signum, frame)

        signal.signal(number, end)

    for number in _ENDING:
        wrap(number)


def close_pool(_server: object, worker: ThreadWorker) -> None:
    """Give the database its connections back."""
    app: Flask | None = getattr(worker, "wsgi", None)
    if app is not None:
        app.extensions["fencepost"].hub.close()
        with app.app_context():
            db.engine.dispose()


def main() -> int:
    """Serve until a signal; 2 when the settings are at fault, 1 when there is no database."""
    try:
        settings = Settings.load(require=("keys", "endpoint_keys", "secret_key"))
        with database(settings) as answering:
            Server(answering).run()
    except FencepostError as error:
        sys.stderr.write(f"fencepost dashboard: {error}\n")
        return 2 if "Settings" in type(error).__name__ else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
