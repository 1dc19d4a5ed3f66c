"""``fencepost delivery``, ``fencepost event`` and ``fencepost stats``."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

from commands import Commands
from fencepost.keyring import Keyring
from rolling import roll
from stage import Stage

NOBODY = uuid.UUID(int=7)


@pytest.fixture
def stage(superuser_url: str, endpoint_keyring: Keyring) -> Iterator[Stage]:
    stage = Stage(superuser_url, endpoint_keyring)
    yield stage
    stage.close()


def test_show_tells_the_story_line_by_line(fencepost: Commands, stage: Stage) -> None:
    (found,) = stage.deliveries(stage.subscription("shop").id)
    stage.send(found, 503)
    stage.send(found, 200, "worker-b")

    printed = fencepost.run("delivery", "show", found).stdout
    lines = [line for line in printed.splitlines() if line.startswith("[")]
    states = [re.match(r"\[\d\d:\d\d\.\d{3}\] (\w+) +- .", line) for line in lines]
    assert [state and state[1] for state in states] == [
        "RECEIVED", "ENCRYPTED", "LEASED", "ATTEMPTED", "FAILED", "RETRIED",
        "LEASED", "ATTEMPTED", "DELIVERED",
    ]  # fmt: skip
    assert "POST https://hooks.example.test/in (attempt 1)" in lines[3]
    assert "HTTP 503 (latency 105 ms)" in lines[4]
    assert "worker-b" in lines[6]
    assert "DELIVERED after 2 attempts" in printed
    received = r"^received +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z$"
    assert re.search(received, printed, re.MULTILINE)
    assert "in all: " in printed
    assert re.search(r"^why +shop answered 200 on attempt 2", printed, re.MULTILINE)
    assert "- Attempt 1 ended with HTTP 503." in printed


def test_show_tells_of_a_worker_that_was_fenced_out(fencepost: Commands, stage: Stage) -> None:
    (found,) = stage.deliveries(stage.subscription().id)
    lease = stage.claim(found)
    stage.attempt(lease)
    stage.expire(found)
    stage.send(found, 200, "worker-b")
    assert not stage.settle(lease, 200)

    as_json = fencepost.json("delivery", "show", found)
    assert as_json["state"] == "DELIVERED"
    (late,) = as_json["timeline"]["fenced"]
    assert late["worker_id"] == "worker-a"
    kinds = [segment["kind"] for segment in as_json["timeline"]["segments"]]
    assert kinds.count("fenced") == 1
    last = fencepost.run("delivery", "show", found).stdout
    assert "FENCED_OUT - Worker worker-a was refused" in last


def test_a_list_goes_on_page_by_page(fencepost: Commands, stage: Stage) -> None:
    ids = stage.deliveries(stage.subscription().id, 5)
    newest_first = sorted(map(str, ids), reverse=True)
    first = fencepost.json("delivery", "list", "--limit", 2)
    assert first["prev"] is None
    second = fencepost.json("delivery", "list", "--limit", 2, "--after", first["next"])
    back = fencepost.json("delivery", "list", "--limit", 2, "--before", second["prev"])
    pages = [[row["id"] for row in page["data"]] for page in (first, second, back)]
    assert pages == [newest_first[:2], newest_first[2:4], newest_first[:2]]

    plain = fencepost.run("delivery", "list", "--limit", 2)
    assert [line.split()[0] for line in plain.stdout.splitlines()] == ["ID", *newest_first[:2]]
    assert "--after" in plain.stderr


def test_filters_choose(fencepost: Commands, stage: Stage) -> None:
    shop, other = stage.subscription("shop"), stage.subscription("other")
    (failed, waiting), _ = stage.deliveries(shop.id, 2), stage.deliveries(other.id)
    stage.send(failed, 503)

    def listed(*options: str) -> list[str]:
        return [row["id"] for row in fencepost.json("delivery", "list", *options)["data"]]

    assert len(listed()) == 3
    assert set(listed("--subscription", "shop")) == {str(failed), str(waiting)}
    assert listed("--state", "retried") == [str(failed)]
    assert listed("--error", "http_5xx", "--event-type", "invoice.*") == [str(failed)]
    assert listed("--event-type", "order.*") == []
    assert len(listed("--from", "-1h")) == 3
    assert listed("--to", "2026-01-01T00:00:00Z") == []


@pytest.mark.parametrize(
    ("args", "status", "says"),
    [
        (("list", "--subscription", "nobody"), 1, "no subscription named 'nobody'"),
        (("list", "--from", "yesterday"), 2, "--from"),
        (("list", "--state", "lost"), 2, "--state"),
        (("list", "--error", "oops"), 2, "--error"),
        (("list", "--after", "x"), 2, "after is not a cursor"),
        (("list", "--after", "x", "--before", "y"), 2, "not both"),
        (("list", "--limit", "0"), 2, "--limit"),
        (("show", NOBODY), 1, "no delivery"),
        (("replay", NOBODY), 1, "no delivery"),
        (("discard", NOBODY), 1, "no delivery"),
        (("show", "12"), 2, "not a valid UUID"),
    ],
)
def test_what_is_wrong_or_not_there(
    fencepost: Commands, args: tuple[object, ...], status: int, says: str
) -> None:
    assert says in fencepost.run("delivery", *args, status=status).stderr


def test_replay_and_discard(fencepost: Commands, stage: Stage) -> None:
    (found,) = stage.deliveries(stage.subscription().id)
    assert "nothing to replay yet" in fencepost.run("delivery", "replay", found, status=1).stderr
    stage.send(found, 404)
    again = fencepost.json("delivery", "replay", found, "--reason", "mended")
    assert again["state"] == "RETRIED"
    assert "mended" in fencepost.run("delivery", "show", found).stdout
    given_up = fencepost.run("delivery", "discard", found, "--reason", "too late")
    assert "is given up" in given_up.stdout
    shown = fencepost.json("delivery", "show", found)
    assert shown["state"] == "DLQ"
    assert shown["discarded_at"] is not None
    assert "discarded already" in fencepost.run("delivery", "discard", found, status=1).stderr
    actors = stage.value("SELECT array_agg(DISTINCT actor) FROM webhook_operator_actions"
                         " WHERE action LIKE 'delivery.%%'")  # fmt: skip
    assert [actor.split()[0] for actor in actors] == ["cli"]


def test_an_event_shows_what_became_of_it(fencepost: Commands, stage: Stage) -> None:
    (found,) = stage.deliveries(stage.subscription("shop").id)
    event_id = stage.value("SELECT event_id FROM webhook_deliveries")
    as_json = fencepost.json("event", "show", event_id)
    assert [one["id"] for one in as_json["deliveries"]] == [str(found)]
    plain = fencepost.run("event", "show", event_id).stdout
    assert str(found) in plain
    assert "shop" in plain
    assert "no event" in fencepost.run("event", "show", NOBODY, status=1).stderr


def test_stats_count_a_window(fencepost: Commands, stage: Stage) -> None:
    shop = stage.subscription("shop")
    good, bad = stage.deliveries(shop.id, 2)
    stage.send(good, 200)
    stage.send(bad, 404)
    roll(stage.conn)
    stats = fencepost.json("stats", "--subscription", "shop", "--from", "-1h")
    assert (stats["received"], stats["delivered"], stats["dead_lettered"]) == (2, 1, 1)
    assert (stats["states"]["DELIVERED"], stats["states"]["DLQ"]) == (1, 1)
    assert "1 DELIVERED, 1 DLQ" in fencepost.run("stats").stdout
    assert "--from" in fencepost.run("stats", "--from", "soon", status=2).stderr
