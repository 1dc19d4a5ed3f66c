"""``fencepost up``, ``demo`` and ``worker`` as real programs that leave nothing behind."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from waiting import eventually


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Command:
    """A running ``fencepost …`` whose output is collected as it comes."""

    def __init__(self, environ: Mapping[str, str], *args: str) -> None:
        self.environ = dict(environ)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fencepost", *args],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.output = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.output += line

    def says(self, pattern: str, *, within: float = 60) -> re.Match[str]:
        def has_ended_or_said() -> bool:
            return self.process.poll() is not None or re.search(pattern, self.output) is not None

        eventually(has_ended_or_said, within=within)
        if self.process.poll() is not None:
            self._reader.join()
        found = re.search(pattern, self.output)
        assert found is not None, self.output
        return found

    def wait(self) -> int:
        status = self.process.wait(60)
        self._reader.join()
        return status

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run another command beside it, with the same settings."""
        argv = [sys.executable, "-P", "-m", "fencepost", *args]
        return subprocess.run(
            argv, env=self.environ, capture_output=True, text=True, check=False, timeout=60
        )


def processes_of(home: Path) -> dict[int, str]:
    """Find whatever runs with this home, and the servers in it."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            environ = (folder / "environ").read_bytes()
        except OSError:
            continue
        if str(home) in command or f"FENCEPOST_HOME={home}\0".encode() in environ + b"\0":
            found[int(folder.name)] = command
    return found


def wait_until_nothing_runs(home: Path) -> None:
    try:
        eventually(lambda: not processes_of(home))
    except AssertionError:
        pytest.fail(f"still running: {processes_of(home)}")


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that is not pytest's: it takes away the right of way that a server of root needs."""
    folder = Path(tempfile.mkdtemp(prefix="fencepost-up-"))
    yield folder / "home"
    for pid in processes_of(folder):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder)


@pytest.fixture
def environ_of_home(environ: Any, home: Path) -> dict[str, str]:
    """Nothing set but the folder and a free port: what a newcomer has."""
    bare = environ(
        home=home,
        bind=f"127.0.0.1:{free_port()}",
        allow_networks=None,
        allow_http=None,
        keys=None,
        endpoint_keys=None,
        secret_key=None,
    )
    return dict(bare)


def get(url: str, path: str, token: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_up_runs_everything_mends_it_and_leaves_nothing(
    environ_of_home: dict[str, str], home: Path
) -> None:
    up = Command(environ_of_home, "up")
    url = up.says(r"Dashboard  (http://\S+)")[1]
    link = up.says(r"Log in     http://[^/]+(/login/\S+)")[1]
    token = up.says(r"API token  (fp_\S+)")[1]
    up.says("Ctrl-C stops everything")

    assert get(url, link)[0] == 200
    assert get(url, "/api/v1/deliveries")[0] == 401
    status, body = get(url, "/api/v1/deliveries", token)
    assert (status, json.loads(body)["data"]) == (200, [])
    examined = up.run("doctor")
    assert examined.returncode == 0, examined.stdout
    event_id = up.run("publish", "invoice.paid", "--data", "{}").stdout.strip()
    assert up.run("event", "show", event_id).returncode == 0

    running = processes_of(home)
    (worker,) = [pid for pid, command in running.items() if "-m worker" in command]
    assert any("-m dashboard" in command for command in running.values())
    os.kill(worker, signal.SIGKILL)
    up.says("worker was killed by SIGKILL; starting it again in 1 s")
    eventually(lambda: "1 alive" in up.run("doctor").stdout or "2 alive" in up.run("doctor").stdout)

    assert up.end() == 0
    wait_until_nothing_runs(home)
    assert "Traceback" not in up.output


def test_up_that_is_killed_takes_everything_with_it(
    environ_of_home: dict[str, str], home: Path
) -> None:
    up = Command(environ_of_home, "up")
    up.says("Ctrl-C stops everything")
    assert processes_of(home)
    up.end(signal.SIGKILL)
    wait_until_nothing_runs(home)


def test_up_that_is_stopped_while_it_starts_leaves_nothing(
    environ_of_home: dict[str, str], home: Path
) -> None:
    up = Command(environ_of_home, "up")
    eventually(lambda: any("-m worker" in command for command in processes_of(home).values()))
    assert up.end(signal.SIGINT) == 0
    wait_until_nothing_runs(home)


def test_a_taken_port_is_said_before_anything_starts(
    environ_of_home: dict[str, str], home: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        environ_of_home["FENCEPOST_BIND"] = f"127.0.0.1:{taken.getsockname()[1]}"
        up = Command(environ_of_home, "up")
        assert up.wait() == 1
    up.says("FENCEPOST_BIND=127.0.0.1:8081")
    assert not home.exists()


def test_a_program_that_cannot_start_ends_it_all(
    environ_of_home: dict[str, str], home: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        environ_of_home["FENCEPOST_WORKER_BIND"] = f"127.0.0.1:{taken.getsockname()[1]}"
        up = Command(environ_of_home, "up")
        assert up.wait() == 1
    assert "FENCEPOST_WORKER_BIND" in up.output
    assert "fencepost: worker ended with status 2" in up.output
    wait_until_nothing_runs(home)


def test_the_demo_shows_failures_recoveries_and_dead_letters(
    environ_of_home: dict[str, str], home: Path
) -> None:
    demo = Command(environ_of_home, "demo")
    mend_host, mend = demo.says(r"curl -X POST http://(\S+?)(/mend)").groups()
    delivery_id = demo.says(r"fencepost delivery show (\S+)")[1]
    story = demo.run("delivery", "show", delivery_id).stdout
    for state in ("FAILED", "RETRIED", "DELIVERED"):
        assert f"] {state}" in story
    eventually(lambda: json.loads(demo.run("dlq", "list", "--json").stdout)["data"])

    connection = http.client.HTTPConnection(mend_host, timeout=20)
    connection.request("POST", mend)
    assert connection.getresponse().status == 200
    connection.close()
    replayed = demo.run("dlq", "replay", "--yes", "--json")
    replay = json.loads(replayed.stdout)
    assert replay["state"] == "DONE"
    assert replay["requeued"] >= 1

    assert demo.end(signal.SIGINT) == 0
    told = re.search(r"Published \d+ events; deliveries: .*DELIVERED.*", demo.output)
    assert told is not None
    assert not re.search("LEASED|ATTEMPTED", told[0]), "it was counted before the worker was done"
    wait_until_nothing_runs(home)
    again = Command(environ_of_home, "demo", "--seconds", "1")
    again.says(r"Published \d+ events")
    assert again.wait() in {0, 1}, "1: all dead letters are mended, and a second is short"
    names = json.loads(again.run("subscription", "list", "--json").stdout)["data"]
    assert len(names) == 3, "the second run takes the first one's subscriptions over"


def test_the_demo_keeps_away_from_real_subscriptions(environ: Any, db_url: str) -> None:
    settings = environ(db_url, bind=f"127.0.0.1:{free_port()}")
    demo = Command(settings, "demo")
    added = demo.run("subscription", "add", "real", "http://127.0.0.1:8999/")
    assert added.returncode == 0, added.stderr
    assert demo.wait() == 1
    demo.says("a subscription of its own")


def test_several_workers_work_and_stop_together(environ: Any, db_url: str) -> None:
    settings = environ(db_url)
    workers = Command(settings, "worker", "--processes", "2", "--name", "twin")

    def states() -> list[str]:
        with psycopg.connect(db_url) as conn:
            conn.execute("SET ROLE fencepost_dashboard")
            rows = conn.execute("SELECT state FROM webhook_workers WHERE worker_id LIKE 'twin-%'")
            return [row[0] for row in rows]

    eventually(lambda: states() == ["running", "running"])
    assert workers.end() == 0
    assert states() == ["stopped", "stopped"]


def test_one_worker_is_the_command_itself(environ: Any, db_url: str) -> None:
    worker = Command(environ(db_url), "worker")
    cmdline = Path(f"/proc/{worker.process.pid}/cmdline")
    eventually(lambda: b"-m\0worker" in cmdline.read_bytes())
    worker.says("worker.started")
    assert worker.end() == 0


def test_a_transport_that_is_not_there_is_wrong_usage(environ: Any, db_url: str) -> None:
    worker = Command(environ(db_url), "worker", "--transport", "pigeon")
    assert worker.wait() == 2
    worker.says("--transport")
