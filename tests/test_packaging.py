"""The wheel works alone: whole with the server extra, small without it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
import venv
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from waiting import eventually

# The environments are made once, by the one process that runs these tests.
pytestmark = pytest.mark.xdist_group("packaging")

ROOT = Path(__file__).resolve().parent.parent

PRODUCER = """
import sys
before = set(sys.modules)
from fencepost import publish, apublish
print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))
"""

RESOURCES = """
import json
from fencepost.resources import resource
print(json.dumps([str(resource(name)) for name in ("templates", "static", "migrations")]))
"""


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A folder of our own: each start of pytest closes the one that it makes to other users,
    and as root the embedded PostgreSQL is one."""
    folder = Path(tempfile.mkdtemp(prefix="fencepost-wheel-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def wheel(place: Path) -> Path:
    """The wheel, built as a release builds it."""
    out = place / "wheel"
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)], cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def server_env(place: Path, wheel: Path) -> Path:
    """An environment with nothing but the wheel and its server extra."""
    return installed(place / "server", f"{wheel}[server]")


@pytest.fixture(scope="session")
def producer_env(place: Path, wheel: Path) -> Path:
    """An environment with nothing but the wheel."""
    return installed(place / "producer", str(wheel))


def installed(folder: Path, what: str) -> Path:
    """Make an environment, install there at our pinned versions, and give its ``bin``."""
    venv.create(folder, with_pip=True)
    bin_dir = folder / "bin"
    pip = [str(bin_dir / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    run([*pip, "-c", str(ROOT / "constraints.txt"), what], cwd=folder)
    return bin_dir


def run(command: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    done = attempt(command, cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def attempt(command: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that sees nothing of the checkout's Python path."""
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        command, cwd=cwd, env=environ, check=False, capture_output=True, text=True
    )


def test_the_wheel_holds_every_page_asset_migration_and_statement(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    for folder, place in (
        ("templates", "dashboard/templates"),
        ("static", "dashboard/static"),
        ("migrations", "fencepost/migrations"),
        ("fencepost", "fencepost"),
        ("worker", "worker"),
        ("dashboard", "dashboard"),
    ):
        ours = {
            f"{place}/{path.relative_to(ROOT / folder)}"
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert ours
        assert ours <= inside, folder
    assert "fencepost/py.typed" in inside
    assert not [name for name in inside if name.startswith(("tests/", "scripts/"))]
    assert [name for name in inside if name.endswith("licenses/LICENSE")]


def test_the_server_runs_from_the_wheel_alone(server_env: Path, tmp_path: Path) -> None:
    told = run([str(server_env / "fencepost"), "--help"], cwd=tmp_path).stdout
    assert "demo" in told
    places = json.loads(run([str(server_env / "python"), "-c", RESOURCES], cwd=tmp_path).stdout)
    for place in places:
        assert Path(place).is_relative_to(server_env.parent)
        assert any(Path(place).iterdir())


def test_the_demo_runs_from_the_wheel_alone_and_leaves_nothing_running(
    server_env: Path, place: Path
) -> None:
    home = place / "home"
    address = f"127.0.0.1:{free_port()}"
    environ = {"FENCEPOST_BIND": address, "FENCEPOST_HOME": str(home)}
    log = place / "demo.log"
    with log.open("w") as output:
        demo = subprocess.Popen(
            [str(server_env / "fencepost"), "demo"],
            cwd=place,
            env=os.environ | environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            eventually(
                lambda: demo.poll() is not None or f"http://{address}" in log.read_text(), within=90
            )
            assert demo.poll() is None, log.read_text()
            assert fetch(f"http://{address}/readyz")
            assets = re.findall(r'(?:href|src)="(/static/[^"]+)"', fetch(f"http://{address}/login"))
            assert assets
            assert all(fetch(f"http://{address}{asset}") for asset in assets)
        finally:
            demo.send_signal(signal.SIGINT)
            status = demo.wait(timeout=120)
    assert status == 0, log.read_text()
    assert not (home / "postgres" / "postmaster.pid").exists()


def fetch(url: str) -> str:
    """Give a page's text; a status of 400 or more is an error."""
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310  # http, and ours
        return str(answer.read().decode())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_a_producer_needs_psycopg_and_cryptography_alone(
    producer_env: Path, tmp_path: Path
) -> None:
    listed = run([str(producer_env / "python"), "-m", "pip", "list", "--format=json"], cwd=tmp_path)
    names = {package["name"].lower().replace("_", "-") for package in json.loads(listed.stdout)}
    assert names <= {
        "cffi",
        "cryptography",
        "fencepost",
        "pip",
        "psycopg",
        "psycopg-binary",
        "pycparser",
        "setuptools",
        "typing-extensions",
    }
    imported = run([str(producer_env / "python"), "-c", PRODUCER], cwd=tmp_path).stdout.split()
    parts = {name for name in imported if name.startswith("_")} | {"cython_runtime"}
    others = set(imported) - set(sys.stdlib_module_names) - parts
    assert others <= {"cryptography", "fencepost", "psycopg", "psycopg_binary", "typing_extensions"}


def test_the_command_without_the_server_extra_says_what_is_missing(
    producer_env: Path, tmp_path: Path
) -> None:
    done = attempt([str(producer_env / "fencepost"), "up"], cwd=tmp_path)
    assert done.returncode != 0
    assert "pip install 'fencepost[server]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
