"""Stop the embedded PostgreSQL when its last user is gone, however that user went.

Run as a program it waits for the end of its standard input, which the user holds
open: a user that is killed closes it too. It imports nothing of Fencepost, so that it
stays small and starts at once.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

IN_USE = "in-use.lock"
"""Every user holds it shared for life; who gets it alone knows that nobody is left."""
START = "start.lock"
"""Held alone around every start and stop."""

NOT_NEEDED = b"stopped"
"""What a user writes to its watch when it has stopped in order."""

_LOOKS = 20
_SECONDS_BETWEEN_LOOKS = 0.1


@contextmanager
def starting_or_stopping(home: Path) -> Iterator[None]:
    """Keep every other start and stop in ``home`` out."""
    handle = open_lock(home / START)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def open_lock(path: Path) -> int:
    """Open a lock's file; closing it gives the lock back."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def stop_unless_used(home: Path, command: Sequence[str], uid: int, gid: int) -> bool:
    """Stop the server by ``command``, run as ``uid``, when nobody uses it.

    Returns:
        False when somebody does.
    """
    with starting_or_stopping(home):
        handle = open_lock(home / IN_USE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            run_as(command, uid, gid)
        except BlockingIOError:
            return False
        finally:
            os.close(handle)
    return True


def run_as(command: Sequence[str], uid: int, gid: int) -> subprocess.CompletedProcess[str]:
    """Run one of PostgreSQL's programs as the server's user, apart from our terminal.

    Nothing of the caller's ``PG…`` variables or locale reaches it.
    """
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PG")}
    foreign = uid != os.geteuid()
    return subprocess.run(  # noqa: S603  # PostgreSQL's programs, no shell
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd="/",
        env={**environ, "LC_ALL": "C"},
        start_new_session=True,
        user=uid if foreign else None,
        group=gid if foreign else None,
        extra_groups=[] if foreign else None,
    )


def main() -> None:
    """Wait until the user is gone, then stop the server if it was the last.

    A few looks: the pipe of a dying process may close before its lock does. When
    somebody else holds the lock, that user has a watch of its own.
    """
    home, uid, gid, *command = sys.argv[1:]
    if sys.stdin.buffer.read() == NOT_NEEDED:
        return
    pause = threading.Event()
    for _ in range(_LOOKS):
        if stop_unless_used(Path(home), command, int(uid), int(gid)):
            return
        pause.wait(_SECONDS_BETWEEN_LOOKS)


if __name__ == "__main__":
    main()
