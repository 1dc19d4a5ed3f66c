"""``fencepost subscription``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from commands import Commands

URL = "http://127.0.0.1:8999/hooks?token=secret"


def add(fencepost: Commands, name: str = "shop", *options: str) -> Any:
    return fencepost.json("subscription", "add", name, URL, *options)


def test_what_is_added_is_listed_and_shown_without_its_secrets(
    fencepost: Commands, tmp_path: Path
) -> None:
    lines = tmp_path / "headers.txt"
    lines.write_text("X-Api-Key: hush\n\nX-Region: eu\n")
    added = add(
        fencepost, "shop", "--event-type", "invoice.*", "--event-type", "order.*",
        "--header", f"@{lines}", "--header", "X-Tenant: 7", "--signature-scheme", "stripe",
        "--max-attempts", "3", "--backoff-base-seconds", "1.5", "--retry-status", "404",
    )  # fmt: skip
    assert added["secret"].startswith("whsec_")
    assert added["event_types"] == ["invoice.*", "order.*"]
    assert sorted(added["headers"]) == ["X-Api-Key", "X-Region", "X-Tenant"]
    assert (added["max_attempts"], added["retry_statuses"]) == (3, [404])

    (listed,) = fencepost.json("subscription", "list")["data"]
    shown = fencepost.json("subscription", "show", "shop")
    assert "secret" not in listed
    assert shown["id"] == listed["id"] == added["id"]
    assert set(shown["deliveries"].values()) == {0}
    told = fencepost.run("subscription", "show", "shop").stdout
    assert re.search(r"^created at +\d{4}-\d\d-\d\d [\d:]{8}\.\d{3}Z$", told, re.MULTILINE)
    for text in (
        fencepost.run("subscription", "list").stdout,
        fencepost.run("subscription", "show", added["id"]).stdout,
    ):
        assert "shop" in text
        assert "hush" not in text
        assert "token=secret" not in text


def test_the_secret_is_printed_once_for_people_too(fencepost: Commands) -> None:
    result = fencepost.run("subscription", "add", "shop", URL)
    assert "whsec_" in result.stdout
    assert "not shown again" in result.stderr


def test_receivers_keep_the_secret_that_they_have(fencepost: Commands, tmp_path: Path) -> None:
    secret = add(fencepost)["secret"]
    (tmp_path / "secret").write_text(secret + "\n")
    assert add(fencepost, "again", "--secret-file", str(tmp_path / "secret"))["secret"] == secret


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("shop", "http://10.0.0.1/"), "10.0.0.1"),
        (("shop", "ftp://x.example/"), "http"),
        (("shop", URL, "--event-type", "a b"), "event_types"),
        (("shop", URL, "--header", "Host: x"), "Host"),
        (("shop", URL, "--header", "nonsense"), "NAME: VALUE"),
        (("shop", URL, "--header", "@/nowhere"), "cannot read /nowhere"),
        (("shop", URL, "--max-attempts", "0"), "max_attempts"),
        (("shop", URL, "--max-in-flight", "3"), "No such option"),
        (("shop",), "URL"),
    ],
)
def test_what_cannot_be_added_is_wrong_usage(
    fencepost: Commands, args: tuple[str, ...], says: str
) -> None:
    assert says in fencepost.run("subscription", "add", *args, status=2).stderr
    assert fencepost.json("subscription", "list")["data"] == []


def test_pause_and_resume(fencepost: Commands) -> None:
    add(fencepost)
    fencepost.run("subscription", "pause", "shop", "--reason", "moving")
    paused = fencepost.json("subscription", "show", "shop")
    assert (paused["state"], paused["paused_reason"]) == ("paused", "moving")
    assert fencepost.run("subscription", "resume", "shop").stdout == "shop is active.\n"
    assert fencepost.json("subscription", "show", "shop")["state"] == "active"


def test_rotation_prints_the_new_secret_and_revocation_ends_the_old(fencepost: Commands) -> None:
    first = add(fencepost)["secret"]
    second = fencepost.run("subscription", "rotate-secret", "shop").stdout.strip()
    assert second.startswith("whsec_")
    assert second != first
    revoked = ("subscription", "revoke-secret", "shop")
    assert fencepost.run(*revoked).stdout == "1 older secret of shop ended.\n"
    assert fencepost.run(*revoked).stdout == "0 older secrets of shop ended.\n"
    third = fencepost.json("subscription", "rotate-secret", "shop", "--overlap-hours", "0")
    assert third["secret"] not in (first, second)


def test_a_test_event_is_for_this_subscription_alone(fencepost: Commands) -> None:
    added = add(fencepost, "shop", "--event-type", "invoice.*")
    event_id = fencepost.json("subscription", "test", "shop")["id"]
    event = fencepost.json("event", "show", event_id)
    assert event["event_type"] == "fencepost.test"
    assert event["deliveries"] is None, "no worker has fanned it out"
    assert "Not fanned out yet" in fencepost.run("event", "show", event_id).stdout
    assert added["id"]


def test_removal_is_asked_for_and_final(fencepost: Commands) -> None:
    add(fencepost)
    refused = fencepost.run("subscription", "remove", "shop", stdin="shop\n", status=2)
    assert "no terminal to ask on: add --yes" in refused.stderr
    assert fencepost.run("subscription", "remove", "shop", "--yes").stdout == "shop is removed.\n"
    assert "shop" in fencepost.run("subscription", "show", "shop", status=1).stderr
    assert fencepost.json("subscription", "list")["data"] == []
    (removed,) = fencepost.json("subscription", "list", "--removed")["data"]
    assert removed["removed_at"] is not None


def test_a_name_that_two_have_asks_for_an_id(fencepost: Commands) -> None:
    add(fencepost)
    second = add(fencepost)
    assert "id" in fencepost.run("subscription", "pause", "shop", status=1).stderr
    fencepost.run("subscription", "pause", second["id"])
