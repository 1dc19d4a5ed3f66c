"""Secrets that Fencepost makes for itself, beside its embedded database."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fencepost.errors import SettingsError

DATA_FOLDER: Final = "postgres"
"""The embedded database's cluster, inside ``FENCEPOST_HOME``."""

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def has_database(home: Path) -> bool:
    """Say whether an embedded database lives in ``home``."""
    return (home / DATA_FOLDER).is_dir()


def read_or_create(path: Path, make: Callable[[], str]) -> str:
    """Read a secret, or make it when there is none.

    Of several processes that make it at once, one wins and all return the winner's: the
    file appears whole, by a link that fails where the name is taken.

    Args:
        path: the secret's file; its folder exists.
        make: gives a new secret.

    Raises:
        SettingsError: it cannot be read or written, or is not ours alone to read.
    """
    try:
        if not path.exists():
            _create(path, make())
        return _read(path)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error


def _create(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        _sync_folder(path.parent)
    finally:
        draft.unlink()


def _read(path: Path) -> str:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_mode & _OTHERS or status.st_uid != os.geteuid():
            raise SettingsError(
                f"{path}: others can read this secret, or it belongs to another user: "
                "chmod 600 it, or run as its owner"
            )
        return file.read().decode("utf-8", "replace").strip()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
