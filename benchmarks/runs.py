"""What all benchmarks share: how large they are, and how one is run."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from section import Section, as_markdown

from fencepost.errors import FencepostError

TRANSPORTS: Final = ("requests", "curl")


class BenchmarkError(FencepostError):
    """A benchmark could not be measured; the message says why."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: the short form fits into a coffee break, the full one into a night."""

    is_full: bool

    def pick(self, short: int, full: int) -> int:
        """Give the number for this size."""
        return full if self.is_full else short


def run_alone(measure: Callable[[Size], Section]) -> None:
    """Run one benchmark from its command line and print its chapter."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--full", action="store_true", help="measure for long")
    print(as_markdown(measure(Size(parser.parse_args().full))))


def bench(*arguments: object) -> dict[str, Any]:
    """Run ``fencepost bench`` as a program and give its JSON.

    Raises:
        BenchmarkError: it failed, or an invariant did not hold.
    """
    argv = [sys.executable, "-P", "-m", "fencepost", "bench", *map(str, arguments), "--json"]
    tell(f"fencepost bench {' '.join(argv[5:-1])}")
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(argv[3:])} failed: {done.stderr.strip()[-1000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def environment(**variables: object) -> Iterator[None]:
    """Set variables of the environment for as long as the block takes."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= {name: str(value) for name, value in variables.items()}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def tell(line: str) -> None:
    """Say how it goes, on stderr."""
    print(line, file=sys.stderr, flush=True)


def quiet(done: int) -> None:
    """Show nothing of a preparation's progress."""
    del done
