"""What processes have used so far, as Linux tells it: processor time and memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_PARENT: Final = 1  # places in /proc/PID/stat behind the name, which may contain anything
_USED: Final = slice(11, 13)
_USED_BY_ENDED: Final = slice(13, 15)


def cpu_seconds(pid: int) -> float:
    """Give what a process has used, with the children it has seen end; 0 when it is gone."""
    found = _stat(pid)
    if found is None:
        return 0.0
    ticks = (*found[_USED], *found[_USED_BY_ENDED])
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def cpu_seconds_of_all(parent: int) -> float:
    """Give what a process and all of its children have used, ended ones included."""
    return cpu_seconds(parent) + sum(map(cpu_seconds, children(parent)))


def peak_memory_mb(pids: Iterable[int]) -> float | None:
    """Give the most memory that any of these processes has occupied; None: nobody tells."""
    return _largest_mb(pids, "VmHWM:")


def memory_mb(pids: Iterable[int]) -> float | None:
    """Give what the largest of these processes occupies now; None: nobody tells."""
    return _largest_mb(pids, "VmRSS:")


def children(pid: int) -> list[int]:
    """List the processes that a process has started and that still run."""
    found: list[int] = []
    for path in _PROC.glob(f"{pid}/task/*/children"):
        try:
            found += map(int, path.read_text(encoding="utf-8").split())
        except OSError:  # the thread has ended
            continue
    return found


def postmaster(backend: int) -> int | None:
    """Give the server to which one of its sessions belongs; None: it runs elsewhere.

    Args:
        backend: the session's process, as the server numbers it.
    """
    try:
        title = (_PROC / str(backend) / "cmdline").read_bytes()
    except OSError:
        return None
    stat = _stat(backend)
    if stat is None or not title.startswith(b"postgres:"):
        return None
    return int(stat[_PARENT])


def is_measurable() -> bool:
    """Say whether this system tells what its processes use."""
    return (_PROC / "self" / "stat").exists()


def _stat(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _largest_mb(pids: Iterable[int], what: str) -> float | None:
    found = [kb for pid in pids if (kb := _status_kb(pid, what)) is not None]
    return max(found) / 1024 if found else None


def _status_kb(pid: int, what: str) -> int | None:
    try:
        lines = (_PROC / str(pid) / "status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(what)), None)
