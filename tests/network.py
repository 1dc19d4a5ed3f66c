"""Hosts of their own on this machine: network namespaces, and cables that a test can cut.

A namespace lasts as long as its keeper, which ends with the test's process however that ends;
its interfaces, addresses and routes go with it. It needs root.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pytest

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


class Host:
    """A host with nothing but its loopback, until cables are laid."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            pytest.fail("network namespaces need root: run `make test` as root or with sudo")
        self._keeper = subprocess.Popen(
            ["unshare", "--net", "cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        with suppress(BrokenPipeError):
            self._keeper.stdin.write(b"there\n")
            self._keeper.stdin.flush()
        if not self._keeper.stdout.readline():  # it echoes from inside, once there is an inside
            _, told = self._keeper.communicate()
            pytest.fail(f"this system lets root make no network namespace: {told.decode().strip()}")
        self.ip("link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        """The process in whose namespace it is."""
        return self._keeper.pid

    def ip(self, *arguments: str) -> None:
        """Run ``ip …`` on this host."""
        command = ["nsenter", f"--target={self.pid}", "--net", "ip", *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, (arguments, done.stderr)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Let programs and threads that this thread starts, and sockets it opens, be here."""
        with (
            Path("/proc/thread-self/ns/net").open() as home,
            Path(f"/proc/{self.pid}/ns/net").open() as here,
        ):
            _enter(here)
            try:
                yield
            finally:
                _enter(home)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._keeper.communicate()


class Cable:
    """Leads from a host to an address of the centre's.

    Args:
        centre: has the address, and one end of the cable.
        host: has the other end.
        name: of the centre's end.
        to: the address that the host reaches by it.
        net: three numbers of four, for the two ends: ``198.18.1``.
    """

    def __init__(self, centre: Host, host: Host, *, name: str, to: str, net: str) -> None:
        self._centre = centre
        self._name = name
        far = f"{name}-far"
        peer = ["peer", "name", far, "netns", str(host.pid)]
        centre.ip("link", "add", name, "type", "veth", *peer)
        for end, interface, last in ((centre, name, 1), (host, far, 2)):
            end.ip("address", "add", f"{net}.{last}/30", "dev", interface)
            end.ip("link", "set", interface, "up")
        host.ip("route", "add", to, "via", f"{net}.1")

    def cut(self) -> None:
        """Lose whatever is sent, without a word to either end's programs."""
        self._centre.ip("link", "set", self._name, "down")

    def mend(self) -> None:
        """Let it through again."""
        self._centre.ip("link", "set", self._name, "up")


def _enter(namespace: IO[str]) -> None:
    if _LIBC.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
