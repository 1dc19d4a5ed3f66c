"""What the Makefile calls says what is missing, where it cannot bring it itself."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent.parent / "scripts"
SHELL = shutil.which("sh") or "sh"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH with nothing on it but what the scripts take for granted: no apt-get, no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("id", "dirname"):
        program = shutil.which(name)
        assert program
        (folder / name).symlink_to(program)
    return folder


def program(path: Path, name: str, text: str) -> None:
    (path / name).write_text(f"#!{SHELL}\n{text}\n")
    (path / name).chmod(0o755)


def run(
    script: str, path: Path, *arguments: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    variables: Mapping[str, str] = {"PATH": str(path), **environ}
    return subprocess.run(
        [SHELL, SCRIPTS / script, *(arguments or [str(path.parent / "venv")])],
        env=variables,
        check=False,
        capture_output=True,
        text=True,
    )


def test_setup_without_a_python_says_which_one_is_needed(path: Path) -> None:
    done = run("setup.sh", path)
    assert done.returncode == 1
    assert "needs Python 3.11 or later; found none" in done.stderr
    assert not (path.parent / "venv").exists()


def test_setup_with_a_python_that_is_too_old_says_so(path: Path) -> None:
    program(path, "python3", "exit 1")
    done = run("setup.sh", path, PYTHON="python3")
    assert done.returncode == 1
    assert "needs Python 3.11 or later" in done.stderr


def test_setup_with_a_python_that_lacks_venv_names_the_package(path: Path) -> None:
    program(
        path,
        "python3",
        'case "$2" in *ensurepip*) exit 1;; *print*) echo 3.12;; *version_info*) exit 0;; esac',
    )
    done = run("setup.sh", path)
    assert done.returncode == 1
    assert "install python3.12-venv" in done.stderr


def test_a_program_that_cannot_be_had_fails_loudly(path: Path) -> None:
    done = run("program.sh", path, "chromium", "chromium-browser")
    assert done.returncode == 1
    assert "need chromium, and it was not found: install" in done.stderr


def test_a_program_that_is_there_is_taken_by_any_of_its_names(path: Path) -> None:
    program(path, "chromium-browser", "exit 0")
    done = run("program.sh", path, "chromium", "chromium-browser")
    assert done.returncode == 0
    assert done.stdout.strip() == str(path / "chromium-browser")
