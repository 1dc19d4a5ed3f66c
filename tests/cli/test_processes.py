"""Programs are kept running, stopped in order, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.processes import Program, StopSignal, Supervisor, describe_exit, module_argv
from programs import is_alive
from waiting import eventually

SAYS_ITS_ID = "import os, sys, signal; print(os.getpid(), flush=True); "


class Bench:
    """Supervised programs whose output is read from their logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.programs: list[Program] = []

    def add(self, name: str, code: str) -> None:
        argv = [sys.executable, "-c", code]
        log = self.folder / f"{name}.log"
        self.programs.append(Program(name, argv, dict(os.environ), log))

    def start(self) -> Supervisor:
        supervisor = Supervisor(self.programs, say=self.said.append)
        supervisor.start()
        return supervisor

    def read(self, name: str) -> list[int]:
        log = self.folder / f"{name}.log"
        return [int(word) for word in log.read_text().split() if word.isdigit()]

    def ids(self, name: str, count: int = 1) -> list[int]:
        eventually(lambda: len(self.read(name)) >= count)
        return self.read(name)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for log in tmp_path.glob("*.log"):
        for pid in bench.read(log.stem):
            assert not is_alive(pid), "a test left a process running"


def test_a_stop_asks_first_and_leaves_nothing(bench: Bench) -> None:
    bench.add("polite", SAYS_ITS_ID + "signal.pause()")
    supervisor = bench.start()
    (pid,) = bench.ids("polite")
    supervisor.stop(20)
    assert not is_alive(pid)
    assert bench.said == []


def test_what_does_not_stop_is_killed_with_its_children(bench: Bench) -> None:
    bench.add(
        "stubborn",
        "import subprocess; signal = __import__('signal'); signal.signal(15, signal.SIG_IGN); "
        "child = subprocess.Popen(['sleep', '1000']); print(child.pid, flush=True); "
        + SAYS_ITS_ID
        + "\nwhile True: signal.pause()",
    )
    supervisor = bench.start()
    pids = bench.ids("stubborn", 2)
    supervisor.stop(0.1)
    eventually(lambda: not any(map(is_alive, pids)))
    assert bench.said == ["stubborn does not stop; killing it"]


def test_an_urgent_stop_asks_again(bench: Bench) -> None:
    bench.add(
        "slow",
        "import signal, os\nasked = []\n"
        "def on(*_):\n    os._exit(0) if asked else asked.append(print('asked', flush=True))\n"
        "signal.signal(15, on)\nprint(os.getpid(), flush=True)\nwhile True: signal.pause()",
    )
    supervisor = bench.start()
    (pid,) = bench.ids("slow")
    supervisor.stop(20, is_urgent=lambda: "asked" in (bench.folder / "slow.log").read_text())
    assert not is_alive(pid)
    assert bench.said == [], "the second signal was enough"


def test_the_dead_are_started_again_later_each_time_and_said_so(bench: Bench) -> None:
    bench.add("frail", SAYS_ITS_ID + "sys.exit(3)")
    supervisor = bench.start()

    def has_started(times: int) -> bool:
        supervisor.mend()
        return len(bench.read("frail")) >= times

    eventually(lambda: has_started(3))
    supervisor.stop(5)
    assert bench.said[:2] == [
        "frail ended with status 3; starting it again in 1 s",
        "frail ended with status 3; starting it again in 2 s",
    ]


def test_what_the_dead_had_started_ends_with_them(bench: Bench) -> None:
    bench.add(
        "parent",
        "import subprocess; print(subprocess.Popen(['sleep', '1000']).pid, flush=True); "
        + SAYS_ITS_ID,
    )
    supervisor = bench.start()
    child, _ = bench.ids("parent", 2)
    eventually(lambda: supervisor.dead)
    eventually(lambda: not is_alive(child))
    supervisor.stop(5)


def test_programs_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from fencepost.processes import Program, Supervisor\n"
        f"argv = [sys.executable, '-c', {SAYS_ITS_ID + 'signal.pause()'!r}]\n"
        f"program = Program('child', argv, dict(os.environ), Path({str(log)!r}))\n"
        "Supervisor([program], say=print).start()\nsignal.pause()"
    )
    starter = subprocess.Popen([sys.executable, "-c", code])
    pid = int(eventually(lambda: log.exists() and log.read_text().strip()))
    starter.kill()
    starter.wait()
    eventually(lambda: not is_alive(pid))


def test_a_signal_is_something_to_wait_for_and_the_second_is_urgent() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignal() as stop:
        assert not stop.wait(0)
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGTERM)).start()
        assert stop.wait(20)
        assert not stop.is_urgent
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.is_urgent
    assert signal.getsignal(signal.SIGTERM) is before


def test_exits_in_words() -> None:
    assert describe_exit(-9) == "was killed by SIGKILL"
    assert describe_exit(1) == "ended with status 1"


def test_our_programs_are_not_shadowed_by_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text("raise SystemExit(77)")
    argv = module_argv("worker", "--help")
    assert subprocess.run(argv, cwd=tmp_path, check=False, capture_output=True).returncode != 77
