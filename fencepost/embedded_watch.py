"""Stop the embedded PostgreSQL when its last user is gone, however that user went.

Run as a program it waits for the end of its standard input, which the user holds
open: a user that is killed closes it too. It imports nothing of Fencepost, so that it
stays small and starts at once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
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
_SIGNAL_SECONDS = 60


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


def stop_unless_used(
    home: Path, command: Sequence[str], uid: int, gid: int, *, say: Callable[[str], object]
) -> bool:
    """Stop the server by ``command``, run as ``uid``, when nobody uses it.

    Should the command fail, the server is sent the signal that the command would have sent.

    Args:
        home: the folder that is in use or not.
        command: pg_ctl's.
        uid: of the server's user.
        gid: of the server's user.
        say: is told in a line when the command has failed.

    Returns:
        False when somebody uses it.

    Raises:
        OSError: it does not stop, or the folder is out of reach.
    """
    with starting_or_stopping(home):
        handle = open_lock(home / IN_USE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            failure = _failure_of(command, uid, gid)
            if failure is not None:
                _signal_server(home / "postgres", failure, say)
        except BlockingIOError:
            return False
        finally:
            os.close(handle)
    return True


def _failure_of(command: Sequence[str], uid: int, gid: int) -> str | None:
    try:
        done = run_as(command, uid, gid)
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    return (" / ".join(done.stdout.split("\n")).strip(" /") or "?") if done.returncode else None


def _signal_server(data: Path, failure: str, say: Callable[[str], object]) -> None:
    """Ask the server for a fast shutdown, and wait for its end."""
    pid = server_pid(data)
    if pid is None:
        return  # it had ended, which is what the command complained of
    say(f"PostgreSQL was not stopped by pg_ctl ({failure}); it is sent SIGINT")
    os.kill(pid, signal.SIGINT)
    until, pause = time.monotonic() + _SIGNAL_SECONDS, threading.Event()
    while server_pid(data) == pid:
        if time.monotonic() > until:
            raise TimeoutError(errno.ETIMEDOUT, "the server does not stop", str(data))
        pause.wait(_SECONDS_BETWEEN_LOOKS)


def server_pid(data: Path) -> int | None:
    """Give the process of the server of ``data``; None when it does not run.

    The process that a stale ``postmaster.pid`` names may be somebody else's by now: a
    server's works in its data folder.
    """
    try:
        pid = int((data / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])
        os.kill(pid, 0)
        if not Path("/proc/self").exists() or Path(f"/proc/{pid}/cwd").samefile(data):
            return pid
    except (OSError, ValueError):
        pass
    return None


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
        # Nobody is left who could be told more than the server's own log says.
        if stop_unless_used(Path(home), command, int(uid), int(gid), say=lambda _: None):
            return
        pause.wait(_SECONDS_BETWEEN_LOOKS)


if __name__ == "__main__":
    main()
