"""Settings: strict, all faults at once, and secrets that stay secret."""

from __future__ import annotations

import ipaddress
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from fencepost.errors import SettingsError
from fencepost.home import DATA_FOLDER, read_or_create
from fencepost.keyring import Keyring
from fencepost.setting_values import Address
from fencepost.settings import SETTINGS, Settings, as_markdown

URL = "postgresql://fencepost:s3cret-word@db.example/fencepost"


def faults(environ: Mapping[str, str], **options: tuple[str, ...]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ, **options)
    return str(caught.value).splitlines()


def test_nothing_set_means_the_embedded_database_and_the_documented_defaults() -> None:
    settings = Settings.load({})
    assert settings.is_embedded
    assert settings.database_url is None
    assert settings.home == Path.cwd() / ".fencepost"
    assert settings.allow_http
    assert (settings.concurrency, settings.deadline_seconds) == (64, 15.0)
    assert settings.bind == Address("127.0.0.1", 8080)
    assert settings.worker_bind is None
    assert settings.heartbeat_seconds == pytest.approx(10)


def test_a_database_url_forbids_plain_http_unless_asked_for() -> None:
    assert not Settings.load({"FENCEPOST_DATABASE_URL": URL}).allow_http
    assert Settings.load({"FENCEPOST_DATABASE_URL": URL, "FENCEPOST_ALLOW_HTTP": "1"}).allow_http


def test_every_fault_is_told_at_once_one_a_line() -> None:
    told = faults(
        {
            "FENCEPOST_BIND": "8080",
            "FENCEPOST_LEASE_SECONDS": "1e3",
            "FENCEPOST_ALLOW_HTTP": "yes",
            "FENCEPOST_KEEP_RESPONSES": "some",
            "FENCEPOST_NOISE": "1",
        }
    )
    assert [line.partition(":")[0] for line in told] == [
        "FENCEPOST_NOISE",
        "FENCEPOST_BIND",
        "FENCEPOST_LEASE_SECONDS",
        "FENCEPOST_ALLOW_HTTP",
        "FENCEPOST_KEEP_RESPONSES",
    ]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("ALLOW_NETWORKS", "10.0.0.1/8", "is 10.0.0.0/8 meant?"),
        ("ALLOW_NETWORKS", "localhost", "is not a network"),
        ("BIND", "[::1:8080", "must be host:port"),
        ("BIND", "127.0.0.1:65536", "from 0 to 65535"),
        ("CONCURRENCY", "0", "from 1 to 1000"),
        ("CONCURRENCY", "٣", "from 1 to 1000"),
        ("CONCURRENCY", "1_0", "from 1 to 1000"),
        ("CONNECT_SECONDS", "16", "is more than FENCEPOST_DEADLINE_SECONDS, which is 15"),
        ("DATABASE_URL", "mysql://db", "must be a URL such as postgresql://"),
        ("DATABASE_URL", "", "set but empty"),
        ("DEADLINE_SECONDS", "nan", "must be a number of seconds"),
        ("ENVIRONMENT", "a\nb", "printable"),
        ("KEYS", "aws-kms:alias/x", "not supported by this version"),
        ("KEYS", "plainly wrong", "must be id:base64key"),
        ("MAX_BATCH_BYTES", "1", "is more than FENCEPOST_MAX_BATCH_BYTES, which is 1"),
        ("NODE_NAME", "two words", "letters, digits"),
        ("SCHEMA", "pg_mine", "not beginning"),
        ("SECRET_KEY", "short", "at least 32"),
        ("TRANSPORT", "pigeon", "must be one of requests"),
        ("TRUSTED_HOSTS", "a.example:80", "a port does not belong here"),
        ("WORKER_BIND", "on", "must be host:port"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(name: str, text: str, says: str) -> None:
    (told,) = faults({f"FENCEPOST_{name}": text})
    assert says in told


def test_values_arrive_parsed() -> None:
    settings = Settings.load(
        {
            "FENCEPOST_BIND": "[::1]:0",
            "FENCEPOST_WORKER_BIND": "0.0.0.0:9000",
            "FENCEPOST_ALLOW_NETWORKS": "127.0.0.0/8, fd00::/8",
            "FENCEPOST_TRUSTED_HOSTS": "a.example,.b.example",
            "FENCEPOST_LEASE_SECONDS": "1.5",
        }
    )
    assert str(settings.bind) == "[::1]:0"
    assert settings.worker_bind == Address("0.0.0.0", 9000)  # noqa: S104  # parsed, not bound
    assert settings.allow_networks == (
        ipaddress.ip_network("127.0.0.0/8"),
        ipaddress.ip_network("fd00::/8"),
    )
    assert settings.trusted_hosts == ("a.example", ".b.example")
    assert settings.lease_seconds == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("bind", "names"),
    [
        ("127.0.0.1:1", ("localhost", "127.0.0.1", "[::1]")),
        ("[fd00::7]:1", ("[fd00::7]",)),
        ("hooks.example:1", ("hooks.example",)),
    ],
)
def test_the_dashboard_answers_to_the_host_it_binds(bind: str, names: tuple[str, ...]) -> None:
    assert Settings.load({"FENCEPOST_BIND": bind}).trusted_hosts == names


def test_a_misspelt_name_is_told_what_was_meant() -> None:
    (told,) = faults({"FENCEPOST_LEASE_SECOND": "30"})
    assert told == (
        "FENCEPOST_LEASE_SECOND: there is no such setting; is FENCEPOST_LEASE_SECONDS meant?"
    )


def test_what_is_not_ours_in_the_environment_is_nobodys_fault() -> None:
    assert Settings.load({"PATH": "/bin", "FENCE": "1"}) == Settings.load({})


def test_no_secret_reaches_a_repr_or_a_message() -> None:
    key = Keyring.generate()
    settings = Settings.load(
        {
            "FENCEPOST_DATABASE_URL": URL,
            "FENCEPOST_KEYS": key,
            "FENCEPOST_ENDPOINT_KEYS": Keyring.generate(),
            "FENCEPOST_SECRET_KEY": "visible" * 10,
        }
    )
    for secret in ("s3cret-word", key, "visible"):
        assert secret not in repr(settings)
    told = faults(
        {
            "FENCEPOST_DATABASE_URL": "mysql://u:s3cret-word@h",
            "FENCEPOST_SECRET_KEY": "s3cret-word",
            "FENCEPOST_KEYS": "k:s3cret-word",
        }
    )
    assert len(told) == 3
    assert "s3cret-word" not in "".join(told)


def test_what_a_program_needs_is_asked_for_at_once_and_says_how_to_make_it() -> None:
    how = 'echo "key1:$(openssl rand -base64 32)"'
    told = faults({"FENCEPOST_DATABASE_URL": URL}, require=("keys", "endpoint_keys", "secret_key"))
    assert told == [
        f"FENCEPOST_ENDPOINT_KEYS: is not set; make one with: {how}",
        f"FENCEPOST_KEYS: is not set; make one with: {how}",
        "FENCEPOST_SECRET_KEY: is not set; make one with: openssl rand -hex 32",
    ]


def test_a_secret_that_is_set_but_wrong_is_not_called_missing() -> None:
    told = faults({"FENCEPOST_DATABASE_URL": URL, "FENCEPOST_KEYS": "x"}, require=("keys",))
    assert len(told) == 1
    assert "is not set" not in told[0]


def test_producers_and_endpoints_never_share_a_key() -> None:
    key = Keyring.generate()
    (told,) = faults(
        {"FENCEPOST_KEYS": key, "FENCEPOST_ENDPOINT_KEYS": f"other:{key.partition(':')[2]}"}
    )
    assert told.startswith("FENCEPOST_ENDPOINT_KEYS: holds a key of FENCEPOST_KEYS")


# NAME_FILE and FENCEPOST_CONFIG


def private_file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    path = private_file(tmp_path / "key", "f" * 40 + "\n")
    assert Settings.load({"FENCEPOST_SECRET_KEY_FILE": str(path)}).secret_key == "f" * 40


def test_a_secret_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = private_file(tmp_path / "key", "f" * 40)
    path.chmod(0o604)
    (told,) = faults({"FENCEPOST_SECRET_KEY_FILE": str(path)})
    assert "others can read" in told


def test_a_secret_given_twice_is_refused(tmp_path: Path) -> None:
    path = private_file(tmp_path / "key", "f" * 40)
    (told,) = faults({"FENCEPOST_SECRET_KEY_FILE": str(path), "FENCEPOST_SECRET_KEY": "g" * 40})
    assert "keep one of the two" in told


def test_only_secrets_come_from_files() -> None:
    (told,) = faults({"FENCEPOST_BIND_FILE": "/nowhere"})
    assert "no such setting" in told


def test_a_secret_file_that_is_not_there_is_a_fault() -> None:
    for environ in ({}, {"FENCEPOST_DATABASE_URL": URL}):
        (told,) = faults({"FENCEPOST_KEYS_FILE": "/nowhere/at/all", **environ}, require=("keys",))
        assert told.startswith("FENCEPOST_KEYS_FILE: cannot read '/nowhere/at/all': No such file")


def test_the_settings_file_reads_like_an_environment_file_and_the_environment_wins(
    tmp_path: Path,
) -> None:
    path = private_file(
        tmp_path / "fencepost.conf",
        "# comment\n; another\n\n FENCEPOST_ENVIRONMENT = 'blue # green' \n"
        'FENCEPOST_SECRET_KEY="' + "f" * 40 + '"\nFENCEPOST_CONCURRENCY=3\n',
    )
    settings = Settings.load({"FENCEPOST_CONFIG": str(path), "FENCEPOST_CONCURRENCY": "5"})
    assert settings.environment == "blue # green"
    assert settings.secret_key == "f" * 40
    assert settings.concurrency == 5


def test_the_settings_file_is_as_strict_as_the_environment(tmp_path: Path) -> None:
    path = private_file(
        tmp_path / "c",
        "FENCEPOST_CONCURRENCY=1\nFENCEPOST_CONCURRENCY=2\nOTHER=1\nexport FENCEPOST_X=1\n"
        "FENCEPOST_CONFIG=/c\nFENCEPOST_BINDD=1\nFENCEPOST_KEYS=a \\\n",
    )
    told = faults({"FENCEPOST_CONFIG": str(path)})
    assert [line.removeprefix(f"{path}:") for line in told] == [
        "2: FENCEPOST_CONCURRENCY is set twice",
        "3: expected one whole FENCEPOST_NAME=value",
        "4: expected one whole FENCEPOST_NAME=value",
        "5: one settings file cannot name another",
        "7: expected one whole FENCEPOST_NAME=value",
        " FENCEPOST_BINDD: there is no such setting; is FENCEPOST_BIND meant?",
    ]


def test_a_settings_file_with_secrets_must_be_private(tmp_path: Path) -> None:
    path = private_file(tmp_path / "c", f"FENCEPOST_SECRET_KEY={'f' * 40}\n")
    path.chmod(0o644)
    (told,) = faults({"FENCEPOST_CONFIG": str(path)})
    assert "chmod 600" in told
    path.write_text("FENCEPOST_CONCURRENCY=9\n", encoding="utf-8")
    assert Settings.load({"FENCEPOST_CONFIG": str(path)}).concurrency == 9


def test_a_settings_file_that_is_not_there_is_a_fault() -> None:
    (told,) = faults({"FENCEPOST_CONFIG": "/nowhere"})
    assert told == "FENCEPOST_CONFIG: cannot read '/nowhere': No such file or directory"


# secrets of our own


def test_with_the_embedded_database_missing_keys_are_made_once_and_kept(tmp_path: Path) -> None:
    (tmp_path / DATA_FOLDER).mkdir()
    environ = {"FENCEPOST_HOME": str(tmp_path)}
    first = Settings.load(environ)
    assert first.keyring().key_ids == Settings.load(environ).keyring().key_ids
    assert first.endpoint_keyring().key_ids != first.keyring().key_ids
    assert first.secret() == Settings.load(environ).secret()
    for name in ("keys", "endpoint_keys", "secret_key"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "endpoint_keys",
        "keys",
        DATA_FOLDER,
        "secret_key",
    ]


def test_loading_writes_nothing(tmp_path: Path) -> None:
    Settings.load({"FENCEPOST_HOME": str(tmp_path / "home")}, require=("keys",))
    assert not (tmp_path / "home").exists()


def test_a_producer_that_forgot_its_keys_never_makes_its_own(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="FENCEPOST_KEYS: is not set"):
        Settings.load({"FENCEPOST_HOME": str(tmp_path)}).keyring()
    with pytest.raises(SettingsError, match="FENCEPOST_KEYS: is not set"):
        Settings.load({"FENCEPOST_DATABASE_URL": URL}).keyring()
    assert list(tmp_path.iterdir()) == []


def test_processes_that_make_a_secret_at_once_agree(tmp_path: Path) -> None:
    count = 16
    barrier = threading.Barrier(count)
    seen: list[str] = []

    def make() -> str:
        barrier.wait()  # nobody has looked for the file later than another wrote it
        return os.urandom(8).hex()

    threads = [
        threading.Thread(target=lambda: seen.append(read_or_create(tmp_path / "key", make)))
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == count
    assert len(set(seen)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_kept_secret_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    read_or_create(tmp_path / "key", lambda: "x")
    (tmp_path / "key").chmod(mode)
    with pytest.raises(SettingsError, match="others can read this secret"):
        read_or_create(tmp_path / "key", lambda: "y")


# the table


def test_every_setting_is_described_and_its_default_is_legal() -> None:
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS) == 26
    for setting in SETTINGS:
        assert setting.help
        if setting.default:
            setting.parse(setting.default)
        assert f"| `{setting.name}` |" in as_markdown()
