"""The wheel works alone: whole with the server extra, small without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

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
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as a release builds it: from the source distribution's files."""
    out = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)], cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def server_env(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """An environment with nothing but the wheel and its server extra."""
    return installed(tmp_path_factory.mktemp("server"), f"{wheel}[server]")


@pytest.fixture(scope="session")
def producer_env(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """An environment with nothing but the wheel."""
    return installed(tmp_path_factory.mktemp("producer"), str(wheel))


def installed(place: Path, what: str) -> Path:
    """Make an environment, install there at our pinned versions, and give its ``bin``."""
    venv.create(place / "venv", with_pip=True)
    bin_dir = place / "venv" / "bin"
    pip = [str(bin_dir / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    run([*pip, "-c", str(ROOT / "constraints.txt"), what], cwd=place)
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
