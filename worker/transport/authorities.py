"""Which certificate authorities libcurl is told to trust: the same as Python's ``ssl``."""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import certifi

_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----", re.ASCII
)


class Authorities:
    """One file with all of them, there as long as it is open.

    libcurl keeps what it has read for as long as it is given one file and nothing else; with a
    folder, or text, it would read some hundred certificates for every connection.

    Args:
        trust: the file to use; None: those of the system, where operators add their own, and
            certifi's, in a temporary file.
    """

    def __init__(self, trust: Path | None = None) -> None:
        self._temporary = None if trust else _write_down()
        self.path = str(trust or (self._temporary and self._temporary.name))

    def close(self) -> None:
        """Remove the temporary file."""
        if self._temporary is not None:
            self._temporary.close()


def _write_down() -> IO[bytes]:
    found = {found for path in _sources() for found in _CERTIFICATE.findall(_read(path))}
    file = tempfile.NamedTemporaryFile(prefix="fencepost-", suffix=".pem")  # noqa: SIM115
    file.write(b"\n".join(sorted(found)) + b"\n")
    file.flush()
    return file


def _sources() -> Iterator[Path]:
    system = ssl.get_default_verify_paths()
    if system.cafile:
        yield Path(system.cafile)
    if system.capath and Path(system.capath).is_dir():
        yield from Path(system.capath).iterdir()
    yield Path(certifi.where())


def _read(path: Path) -> bytes:
    """Read a file; a link that leads nowhere is passed over, as OpenSSL does."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
