"""The embedded PostgreSQL: private, shared, never left behind, never guessed at."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencepost import system_user
from fencepost.embedded import Embedded, database
from fencepost.embedded_cluster import Cluster
from fencepost.errors import DatabaseUnavailableError, SettingsError
from fencepost.settings import Settings
from waiting import eventually

pytestmark = pytest.mark.postgres

MakeServer = Callable[..., Embedded]

USER = """
import sys
from pathlib import Path
from fencepost.embedded import Embedded
home, bin_dir, *configuration = sys.argv[1:]
configuration = dict(zip(configuration[::2], configuration[1::2]))
server = Embedded(Path(home), Path(bin_dir) if bin_dir else None, configuration=configuration)
print(server.start(), flush=True)
sys.stdin.read()
server.stop()
"""
FAST = {"fsync": "off", "shared_buffers": "16MB"}


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder with a short path."""
    folder = Path(tempfile.mkdtemp(prefix="fp-"))
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture
def make(home: Path) -> Iterator[MakeServer]:
    """Servers in ``home`` that are stopped after the test."""
    with ExitStack() as stack:

        def made(place: Path = home, **configuration: str) -> Embedded:
            server = Embedded(place, bin_dir(), configuration=FAST | configuration)
            stack.callback(server.stop)
            return server

        yield made


@pytest.fixture
def other_user(home: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Other processes that use the server in ``home``."""
    with ExitStack() as stack:

        def started() -> subprocess.Popen[str]:
            configuration = [text for pair in FAST.items() for text in pair]
            process = subprocess.Popen(
                [sys.executable, "-c", USER, str(home), str(bin_dir() or ""), *configuration],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.communicate)
            return process

        yield started


def bin_dir() -> Path | None:
    chosen = os.environ.get("TEST_PG_BIN")
    return Path(chosen) if chosen else None


def ask(url: str, question: str) -> tuple[Any, ...]:
    with psycopg.connect(url) as conn:
        row = conn.execute(question).fetchone()
    assert row is not None
    return row


def runs(home: Path) -> bool:
    return (home / "postgres" / "postmaster.pid").exists()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def postmaster(home: Path) -> int:
    return int((home / "postgres" / "postmaster.pid").read_text().splitlines()[0])


# what it is


def test_the_login_owns_its_database_makes_roles_and_is_no_superuser(make: MakeServer) -> None:
    url = make().start()
    question = """
        SELECT current_user::text, rolsuper, rolcreaterole, pg_get_userbyid(datdba),
               pg_encoding_to_char(encoding)
          FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()
    """
    assert ask(url, question) == ("fencepost", False, True, "fencepost", "UTF8")


def test_it_keeps_what_was_written_and_syncs_by_default(home: Path) -> None:
    server = Embedded(home, bin_dir())
    with server:
        assert ask(server.url(), "SELECT current_setting('fsync')") == ("on",)
        with psycopg.connect(server.url()) as conn:
            conn.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    assert not runs(home)
    with server:
        assert ask(server.url(), "SELECT answer FROM kept") == (42,)


def test_nobody_else_reaches_data_or_socket_and_no_port_is_open(
    home: Path, make: MakeServer
) -> None:
    url = make().start()
    assert mode(home / "postgres") == mode(home / "run") == 0o700
    assert not mode(home) & 0o066
    assert ask(url, "SELECT current_setting('listen_addresses')") == ("",)


def test_it_never_runs_as_root(home: Path, make: MakeServer) -> None:
    make().start()
    owner = (home / "postgres").stat().st_uid
    assert owner != 0
    assert os.stat(f"/proc/{postmaster(home)}").st_uid == owner  # noqa: PTH116  # a process


def test_as_root_the_folders_above_are_opened_for_passing_and_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "home"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o700)
    stranger = system_user.ServerUser("stranger", os.geteuid() + 1, os.getegid() + 1)
    system_user.open_the_way(folder, stranger)
    assert mode(folder.parent) == 0o701


def test_a_long_path_has_its_socket_in_a_private_folder_under_temp(
    home: Path, make: MakeServer
) -> None:
    far = home / ("a" * 60) / ("b" * 60)
    server = make(far)
    url = server.start()
    assert ask(url, "SELECT 1") == (1,)
    link = far / "run"
    place = link.readlink()
    assert place.parent == Path(tempfile.gettempdir())
    assert place.name.startswith("fencepost-")
    assert mode(place) == 0o700
    server.stop()
    assert not place.exists()
    assert not link.is_symlink()
    assert ask(server.start(), "SELECT 1") == (1,)


def test_spaces_and_letters_of_all_alphabets_are_fine_in_a_path(
    home: Path, make: MakeServer
) -> None:
    assert ask(make(home / "größe 漢 %41").start(), "SELECT 1") == (1,)


@pytest.mark.parametrize("letter", ["'", '"', "$", "`", ",", "\\"])
def test_a_path_that_postgresql_would_misread_is_refused(
    home: Path, make: MakeServer, letter: str
) -> None:
    with pytest.raises(SettingsError, match="FENCEPOST_HOME"):
        make(home / f"a{letter}b").start()
    assert not home.exists()


# who uses it


def test_the_last_user_stops_it_and_no_other(home: Path, make: MakeServer) -> None:
    first, second = make(), make()
    assert first.start() == second.start()
    first.stop()
    assert ask(second.url(), "SELECT 1") == (1,)
    second.stop()
    assert not runs(home)
    second.stop()


def test_processes_that_start_it_at_once_share_one_server(
    home: Path, other_user: Callable[[], subprocess.Popen[str]]
) -> None:
    users = [other_user() for _ in range(4)]
    urls = {user.stdout.readline().strip() for user in users if user.stdout}
    assert len(urls) == 1
    assert ask(urls.pop(), "SELECT count(*) FROM pg_database WHERE datname = 'fencepost'") == (1,)
    for user in users:
        user.communicate()
        assert user.returncode == 0
    assert not runs(home)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_user_that_is_killed_leaves_no_server_behind(
    home: Path, other_user: Callable[[], subprocess.Popen[str]], how: signal.Signals
) -> None:
    user = other_user()
    assert user.stdout
    assert user.stdout.readline()
    user.send_signal(how)
    user.wait()
    eventually(lambda: not runs(home))


def test_a_user_that_is_killed_takes_the_server_from_nobody(
    home: Path, make: MakeServer, other_user: Callable[[], subprocess.Popen[str]]
) -> None:
    server = make()
    server.start()
    user = other_user()
    assert user.stdout
    assert user.stdout.readline()
    watches = eventually(lambda: watches_of(home))
    user.kill()
    user.wait()
    eventually(lambda: len(watches_of(home)) < len(watches))
    assert ask(server.url(), "SELECT 1") == (1,)


def watches_of(home: Path) -> list[Path]:
    """The processes that watch over users of ``home``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(home).encode() in words and any(b"embedded_watch" in word for word in words):
            found.append(process)
    return found


# what went wrong before


def test_a_server_that_was_killed_recovers_at_the_next_start(home: Path, make: MakeServer) -> None:
    server = make()
    with psycopg.connect(server.start()) as conn:
        conn.execute("CREATE TABLE kept AS SELECT 7 AS answer")
    killed = postmaster(home)
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: not is_running(killed))
    assert ask(server.start(), "SELECT answer FROM kept") == (7,)


def test_a_process_number_that_now_is_somebody_elses_does_not_stop_the_start(
    home: Path, make: MakeServer
) -> None:
    server = make()
    server.start()
    server.stop()
    owner = (home / "postgres").stat()
    uid, gid = (owner.st_uid, owner.st_gid) if os.geteuid() == 0 else (None, None)
    # Of the same user, so that PostgreSQL itself would believe the stale file.
    bystander = subprocess.Popen(["sleep", "60"], user=uid, group=gid)
    try:
        pid_file = home / "postgres" / "postmaster.pid"
        pid_file.write_text(f"{bystander.pid}\n{home}/postgres\n1\n5432\n\n\n")
        assert ask(server.start(), "SELECT 1") == (1,)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_start_that_was_killed_half_way_is_made_whole(home: Path, make: MakeServer) -> None:
    (home / "postgres.new").mkdir(parents=True)
    (home / "postgres.new" / "PG_VERSION").write_text("18")
    server = make()
    server.start()
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as conn:
        conn.execute("DROP DATABASE fencepost")
        conn.execute("DROP ROLE fencepost")
    assert ask(server.start(), "SELECT 1") == (1,)


def test_a_socket_folder_that_was_cleaned_away_is_laid_anew(home: Path, make: MakeServer) -> None:
    server = make(home / ("a" * 90))
    server.start()
    shutil.rmtree((home / ("a" * 90) / "run").readlink())
    assert ask(server.start(), "SELECT 1") == (1,)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# what is refused


def test_data_of_another_major_version_are_refused_and_kept(home: Path, make: MakeServer) -> None:
    server = make()
    server.start()
    server.stop()
    version = home / "postgres" / "PG_VERSION"
    version.write_text("14\n")
    with pytest.raises(SettingsError, match="was written by PostgreSQL 14"):
        make().start()
    assert version.read_text() == "14\n"
    assert not runs(home)


def test_data_of_another_user_are_refused(
    home: Path, make: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make()
    server.start()
    server.stop()
    stranger = (home / "postgres").stat().st_uid + 4321
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    with pytest.raises(SettingsError, match="belongs to the user"):
        system_user.server_user(home / "postgres")


def test_a_folder_that_others_can_write_to_is_refused(home: Path, make: MakeServer) -> None:
    home.mkdir()
    home.chmod(0o777)
    with pytest.raises(SettingsError, match="others can write to it"):
        make().start()
    assert list(home.iterdir()) == []


def test_a_home_that_is_a_file_is_refused(home: Path, make: MakeServer) -> None:
    home.write_text("")
    with pytest.raises(SettingsError, match="is not a folder"):
        make().start()


def test_programs_that_are_not_there_are_told(home: Path) -> None:
    with pytest.raises(SettingsError, match="there is no PostgreSQL at /nowhere/bin"):
        Embedded(home, Path("/nowhere/bin")).start()


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(
    home: Path, make: MakeServer
) -> None:
    server = make(max_connections="many")
    with pytest.raises(DatabaseUnavailableError, match="max_connections"):
        server.start()
    assert not runs(home)
    with pytest.raises(DatabaseUnavailableError):
        Embedded(home).url()


def test_programs_that_are_gone_at_the_stop_are_told(home: Path, make: MakeServer) -> None:
    server = make()
    server.start()
    home.rename(home.with_name("away"))
    with pytest.raises(DatabaseUnavailableError, match="could not be stopped"):
        server.stop()
    home.with_name("away").rename(home)
    server.start()


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["/bin/sh", "-c", "echo no; echo way; exit 1"], "no / way"),
        (["/nowhere/pg_ctl"], "/nowhere/pg_ctl: No such file or directory"),
    ],
)
def test_a_server_that_pg_ctl_does_not_stop_is_sent_its_signal(
    home: Path,
    make: MakeServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    command: list[str],
    told: str,
) -> None:
    server = make()
    server.start()
    pid = postmaster(home)
    monkeypatch.setattr(Cluster, "stop_command", command)
    caplog.clear()
    server.stop()
    assert not is_running(pid)
    assert not runs(home)
    assert caplog.messages == [f"PostgreSQL was not stopped by pg_ctl ({told}); it is sent SIGINT"]


# with settings


def test_settings_with_a_url_are_left_alone() -> None:
    settings = Settings.load({"FENCEPOST_DATABASE_URL": "postgresql://elsewhere/db"})
    with database(settings) as given:
        assert given is settings


def test_settings_without_a_url_get_the_embedded_one_and_its_keys(home: Path) -> None:
    settings = Settings.load({"FENCEPOST_HOME": str(home)})
    with database(settings) as given:
        assert given.database_url
        assert ask(given.database_url, "SELECT current_database()::text") == ("fencepost",)
        assert given.keyring().key_ids == settings.keyring().key_ids
        assert mode(home / "keys") == 0o600
    assert not runs(home)
