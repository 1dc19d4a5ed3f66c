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
    peaks = [peak for pid in pids if (peak := _peak_kb(pid)) is not None]
    return max(peaks) / 1024 if peaks else None


def children(pid: int) -> list[int]:
    """List the processes that a process has started and that still run."""
    found = []
    for path in _PROC.glob("[0-9]*/stat"):
        stat = _stat(int(path.parent.name))
        if stat is not None and int(stat[_PARENT]) == pid:
            found.append(int(path.parent.name))
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


def _peak_kb(pid: int) -> int | None:
    try:
        lines = (_PROC / str(pid) / "status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)
