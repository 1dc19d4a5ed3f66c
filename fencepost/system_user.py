"""Which user the embedded PostgreSQL runs as: never root, which it refuses."""

from __future__ import annotations

import logging
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.errors import SettingsError

_STAND_INS: Final = ("postgres", "nobody")
"""Whom root lends the server to: the first that exists."""

_log = logging.getLogger("fencepost.embedded")


@dataclass(frozen=True, slots=True)
class ServerUser:
    """The user that owns the database's files and processes."""

    name: str
    uid: int
    gid: int


def server_user(data: Path) -> ServerUser:
    """Choose the user to run the server in ``data`` as: ourselves, or as root a stand-in.

    Raises:
        SettingsError: the data belong to somebody else, whom we neither are nor replace.
    """
    candidates = _candidates()
    try:
        owner = data.stat().st_uid
    except FileNotFoundError:
        return candidates[0]
    for candidate in candidates:
        if candidate.uid == owner:
            return candidate
    raise SettingsError(
        f"FENCEPOST_HOME: {data} belongs to the user {_name_of(owner)}; run as that user, "
        "or choose another folder"
    )


def open_the_way(path: Path, user: ServerUser) -> None:
    """Let the server's user pass through the folders above ``path``, and do no more.

    Only root needs it. Passing is not listing: nobody sees a name that they did not know.
    """
    if user.uid == os.geteuid():
        return
    for folder in reversed(path.parents):
        status = folder.stat()
        if not status.st_mode & stat.S_IXOTH and status.st_uid != user.uid:
            folder.chmod(stat.S_IMODE(status.st_mode) | stat.S_IXOTH)
            _log.warning("chmod o+x %s, so that %s can reach %s", folder, user.name, path)


def _candidates() -> list[ServerUser]:
    if os.geteuid() != 0:
        return [ServerUser(_name_of(os.geteuid()), os.geteuid(), os.getegid())]
    found = []
    for name in _STAND_INS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        found.append(ServerUser(name, entry.pw_uid, entry.pw_gid))
    if not found:
        raise SettingsError(
            f"FENCEPOST_DATABASE_URL: PostgreSQL refuses to run as root, and there is no user "
            f"named {' or '.join(_STAND_INS)} to run it as; run as another user or set a URL"
        )
    return found


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
