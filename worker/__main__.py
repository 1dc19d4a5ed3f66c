"""Run one worker: ``fencepost worker``, or ``python -m worker``."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import threading

from fencepost.embedded import Embedded
from fencepost.errors import FencepostError, SettingsError
from fencepost.settings import Settings
from worker import signals
from worker.attempt_log import LineFormatter
from worker.build import Worker

COLLECTED_AFTER = 20_000
"""New objects before the garbage collector looks at them: nearly all are gone by themselves by
then, and of those in flight none is garbage. Python's own 700 cost a twentieth of all that a
busy worker did."""


def main(arguments: list[str] | None = None) -> int:
    """Work until SIGTERM or SIGINT.

    Returns:
        0 after a drain, 1 when something is wrong or was left undone, 2 for wrong settings.
    """
    parser = argparse.ArgumentParser(prog="fencepost worker", description=__doc__)
    parser.add_argument("--name", help="in front of the worker id's random suffix")
    chosen = parser.parse_args(arguments)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    gc.freeze()  # what is imported by now stays
    gc.set_threshold(COLLECTED_AFTER)
    stop = threading.Event()
    signals.install(stop)
    try:
        settings = Settings.load(require=("keys", "endpoint_keys"))
        if not settings.is_embedded:
            return Worker(settings, name=chosen.name).run(stop)
        with Embedded(settings.home) as embedded:
            connected = settings.connected_to(embedded.url())
            return Worker(connected, name=chosen.name).run(stop)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except FencepostError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
