"""The dashboard as a process: how it starts, and how it ends."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stage import Stage
from waiting import eventually

COMMAND = [sys.executable, "-P", "-m", "dashboard"]


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def process(
    db_url: str, environ: Callable[..., dict[str, str]], port: int, tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    # A folder named like the package must not be taken for it.
    (tmp_path / "dashboard").mkdir()
    (tmp_path / "dashboard" / "__init__.py").write_text("raise SystemExit('shadowed')")
    with (tmp_path / "log").open("wb") as log:
        found = subprocess.Popen(
            COMMAND,
            env=environ(db_url, bind=f"127.0.0.1:{port}"),
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
    try:
        eventually(lambda: ask(port, "/readyz") == 200)
        yield found
    finally:
        found.kill()
        found.wait(30)


def ask(port: int, path: str) -> int | None:
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        conn.request("GET", path)
        return conn.getresponse().status
    except OSError:
        return None
    finally:
        conn.close()


def test_open_streams_do_not_delay_the_end(
    process: subprocess.Popen[bytes], port: int, stage: Stage
) -> None:
    cookie = {"Cookie": f"fencepost_session={stage.user()}"}
    streams = []
    for _ in range(3):
        conn = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        conn.request("GET", "/live?t=overview", headers=cookie)
        streams.append((conn, conn.getresponse()))
    for _, answer in streams:
        assert answer.status == 200
        assert answer.read(5) == b"retry"
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert time.monotonic() - began < 9.5  # before the graceful timeout, which would cut them
    for conn, answer in streams:
        assert b"event: bye" in answer.read()
        conn.close()


def test_each_process_has_connections_of_its_own_and_gives_them_back(
    process: subprocess.Popen[bytes], port: int, stage: Stage
) -> None:
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fencepost web'"
    ours += " AND datname = current_database()"
    for _ in range(20):
        assert ask(port, "/readyz") == 200
    assert 1 <= stage.value(ours) <= 16
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    eventually(lambda: stage.value(ours) == 0)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"keys": None}, "FENCEPOST_KEYS"),
        ({"endpoint_keys": None}, "FENCEPOST_ENDPOINT_KEYS"),
        ({"secret_key": "short"}, "FENCEPOST_SECRET_KEY"),
        ({"bind": "nowhere"}, "FENCEPOST_BIND"),
    ],
)
def test_a_bad_setting_is_one_line(
    environ: Callable[..., dict[str, str]], fault: dict[str, str], told: str
) -> None:
    given = environ("postgresql://127.0.0.1:1/x", **fault)
    ended = subprocess.run(
        COMMAND, env=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr
