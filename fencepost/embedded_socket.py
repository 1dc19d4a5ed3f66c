"""The folder that the embedded PostgreSQL's socket lies in: private, and short enough."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.system_user import ServerUser, open_the_way

_SOCKET: Final = ".s.PGSQL.5432"
_LONGEST_FOLDER: Final = 100 - len(_SOCKET)
"""A socket's path has 107 bytes at most, on macOS 103."""

_log = logging.getLogger("fencepost.embedded")


@dataclass(frozen=True, slots=True)
class SocketFolder:
    """Where the server is reached. Whoever can enter the folder is trusted by the server."""

    place: Path
    """In ``FENCEPOST_HOME``; a link into the temp folder when the path is too long."""
    user: ServerUser

    @property
    def path(self) -> Path:
        """The folder to connect to."""
        return self.place.readlink() if self.place.is_symlink() else self.place

    def lay(self) -> bool:
        """Make sure that the folder is there and the server user's alone.

        Returns:
            True when it had to be made: a server that runs has lost its socket.
        """
        if self.place.is_dir() and self._is_private():
            return False
        if self.place.is_symlink():
            self.place.unlink()
        if len(os.fsencode(self.place)) <= _LONGEST_FOLDER:
            self.place.mkdir(mode=0o700, exist_ok=True)
        else:
            self.place.symlink_to(tempfile.mkdtemp(prefix="fencepost-"))
            _log.info("the socket lies in %s: the path of FENCEPOST_HOME is long", self.path)
        os.chown(self.path, self.user.uid, self.user.gid)
        self.path.chmod(0o700)
        open_the_way(self.path, self.user)
        return True

    def clear(self) -> None:
        """Remove what a killed server left; its lock would stop the next one."""
        for name in (_SOCKET, f"{_SOCKET}.lock"):
            (self.path / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Leave nothing in the temp folder, after the server has stopped."""
        if self.place.is_symlink():
            shutil.rmtree(self.path, ignore_errors=True)
            self.place.unlink()

    def _is_private(self) -> bool:
        status = self.path.lstat()
        ours = stat.S_ISDIR(status.st_mode) and status.st_uid == self.user.uid
        return ours and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
