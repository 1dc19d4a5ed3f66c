"""Become another program that ends when its starter does, even by ``kill -9``.

Run by its path, so that nothing else of Fencepost is imported:
``python -I tether.py STARTER_PID PROGRAM ARGUMENT…``. The program keeps this process's id and
shows its own command line.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import NoReturn

_PR_SET_PDEATHSIG = 1


def main(starter: int, argv: list[str]) -> NoReturn:
    """Ask the kernel for a SIGTERM at the starter's death, then become the program.

    Where the kernel has no such service (it is Linux's), the program runs untethered.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != starter:  # it died before the kernel was asked
        sys.exit(1)
    os.execv(argv[0], argv)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
