"""Faults of this machine, for which no receiver is to blame and no attempt is charged."""

from __future__ import annotations

import errno
from typing import Final

from fencepost.errors import FencepostError

_ERRNOS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


class LocalFaultError(FencepostError):
    """This machine is out of file descriptors, memory or threads; raise its limits."""


def is_local_fault(error: BaseException) -> bool:
    """Say whether an error tells of this machine's limits and not of the other side."""
    if isinstance(error, OSError):
        return error.errno in _ERRNOS
    return isinstance(error, (LocalFaultError, MemoryError))
