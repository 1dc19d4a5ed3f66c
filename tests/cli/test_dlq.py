"""``fencepost dlq``: nothing happens to many before somebody has said how many."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from commands import Commands
from fencepost.keyring import Keyring
from fencepost.store.pool import connect
from fencepost.store.requeue import requeue_batch, take_due
from stage import Stage
from waiting import eventually


@pytest.fixture
def stage(superuser_url: str, endpoint_keyring: Keyring) -> Iterator[Stage]:
    stage = Stage(superuser_url, endpoint_keyring)
    yield stage
    stage.close()


@pytest.fixture
def worker(stage: Stage, db_url: str) -> Iterator[None]:
    """A worker that does nothing but bulk replays."""
    stage.beat()
    done = threading.Event()

    def work() -> None:
        with connect(db_url, role="worker") as conn:
            while not done.wait(0.02):
                with conn.transaction():
                    replay = take_due(conn)
                    if replay is not None:
                        requeue_batch(conn, replay, 2)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    done.set()
    thread.join()


def counts(stage: Stage) -> dict[str, int]:
    rows = stage.conn.execute(
        "SELECT current_state || CASE WHEN discarded_at IS NULL THEN '' ELSE ' discarded' END,"
        " count(*) FROM webhook_deliveries GROUP BY 1"
    )
    return dict(rows.fetchall())


def test_a_dry_run_counts_and_changes_nothing(fencepost: Commands, stage: Stage) -> None:
    stage.dead(stage.subscription("shop").id, 3)
    for action in ("replay", "discard"):
        found = fencepost.json("dlq", action, "--dry-run")
        assert (found["matched"], found["eligible"]) == (3, 3)
    assert counts(stage) == {"DLQ": 3}
    assert stage.value("SELECT count(*) FROM webhook_replays") == 0


@pytest.mark.usefixtures("worker")
def test_a_replay_sends_again_what_matches_and_nothing_else(
    fencepost: Commands, stage: Stage
) -> None:
    shop, other = stage.subscription("shop"), stage.subscription("other")
    stage.dead(shop.id, 5)
    stage.dead(other.id, 2)
    done = fencepost.run("dlq", "replay", "--subscription", "shop", "--yes", "--reason", "mended")
    assert "DONE, 5 sent again, 0 passed over, 0 to go" in done.stdout
    assert "5 dead letters match" in done.stderr
    assert "Sending again: 5 of 5" in done.stderr
    assert counts(stage) == {"RETRIED": 5, "DLQ": 2}
    assert stage.value("SELECT reason FROM webhook_replays") == "mended"


def test_a_dry_run_says_why_some_cannot_be_sent(fencepost: Commands, stage: Stage) -> None:
    stage.dead(stage.subscription("shop").id, 2)
    stage.conn.execute("UPDATE webhook_subscriptions SET removed_at = fencepost_now()")
    done = fencepost.run("dlq", "replay", "--dry-run", "--newest-first")
    assert "2 of them cannot be sent again: 2 subscription removed." in done.stderr
    assert fencepost.json("dlq", "replay", "--dry-run") == {
        "matched": 2, "eligible": 0, "not_eligible": {"removed": 2}
    }  # fmt: skip


def test_one_that_pauses_itself_ends_the_watching_and_says_why(
    fencepost: Commands, stage: Stage
) -> None:
    stage.dead(stage.subscription("shop").id, 1)
    stage.beat()
    why = "41 of its last 50 attempts failed"

    def pause() -> None:
        query = (
            "UPDATE webhook_replays SET state = 'PAUSED', paused_reason = %s"
            " WHERE state = 'RUNNING' RETURNING 1"
        )
        eventually(lambda: stage.value(query, why))

    pausing = threading.Thread(target=pause)
    pausing.start()
    refused = fencepost.run("dlq", "replay", "--yes", status=1, one_line=False)
    pausing.join()
    assert f"paused itself: {why}" in refused.stderr


def test_without_a_worker_the_replay_waits_and_says_so(fencepost: Commands, stage: Stage) -> None:
    stage.dead(stage.subscription().id, 2)
    done = fencepost.run("dlq", "replay", "--yes")
    assert "No worker is alive" in done.stderr
    assert "RUNNING" in done.stdout
    assert counts(stage) == {"DLQ": 2}


def test_discarding_keeps_the_letters_and_takes_them_out_of_the_list(
    fencepost: Commands, stage: Stage
) -> None:
    stage.dead(stage.subscription("shop").id, 1200)
    stage.dead(stage.subscription("other").id, 1)
    done = fencepost.run("dlq", "discard", "--subscription", "shop", "--yes", "--reason", "old")
    assert done.stdout == "1200 discarded\n"
    assert counts(stage) == {"DLQ": 1, "DLQ discarded": 1200}
    assert len(fencepost.json("dlq", "list")["data"]) == 1
    assert fencepost.json("dlq", "replay", "--dry-run")["matched"] == 1


def test_nothing_matches_is_done_at_once(fencepost: Commands) -> None:
    done = fencepost.run("dlq", "replay", "--yes")
    assert "0 dead letters match" in done.stderr
    assert done.stdout == "0 sent again\n"
    assert fencepost.run("dlq", "discard", "--yes").stdout == "0 discarded\n"


@pytest.mark.parametrize("action", ["replay", "discard"])
def test_without_a_terminal_it_must_be_told_yes(
    fencepost: Commands, stage: Stage, action: str
) -> None:
    stage.dead(stage.subscription().id, 1)
    refused = fencepost.run("dlq", action, status=2, one_line=False)
    assert "--yes" in refused.stderr
    assert counts(stage) == {"DLQ": 1}
    assert stage.value("SELECT count(*) FROM webhook_replays WHERE state <> 'CANCELLED'") == 0


@pytest.mark.parametrize(("typed", "status"), [("3", 0), ("2", 1), ("yes", 1)])
def test_on_a_terminal_the_exact_count_must_be_typed(
    environ: Any, db_url: str, stage: Stage, typed: str, status: int
) -> None:
    stage.dead(stage.subscription().id, 3)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fencepost", "dlq", "discard"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ(db_url),
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, f"{typed}\n".encode())
    _, stderr = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == status
    assert b"Type 3 to discard 3" in stderr
    assert counts(stage) == ({"DLQ discarded": 3} if status == 0 else {"DLQ": 3})
    assert (b"nothing was changed" in stderr) is (status == 1)


def test_a_list_has_reason_and_moment_of_entry(fencepost: Commands, stage: Stage) -> None:
    (found,) = stage.dead(stage.subscription().id, 1)
    plain = fencepost.run("dlq", "list").stdout
    assert plain.splitlines()[0].split()[-2:] == ["REASON", "ENTERED"]
    assert str(found) in plain
    assert "not_retryable" in plain
    assert fencepost.json("dlq", "list", "--to", "-1h")["data"] == []


def test_what_comes_in_after_the_count_is_left_alone(fencepost: Commands, stage: Stage) -> None:
    shop = stage.subscription("shop")
    stage.dead(shop.id, 2)
    stage.beat()
    running = threading.Thread(target=fencepost.run_quietly, args=("dlq", "replay", "--yes"))
    running.start()
    eventually(lambda: stage.value("SELECT count(*) FROM webhook_replays WHERE state = 'RUNNING'"))
    stage.dead(shop.id, 1)
    with connect(fencepost.db_url or "", role="worker") as conn:
        while True:
            with conn.transaction():
                replay = take_due(conn)
                if replay is None:
                    break
                requeue_batch(conn, replay, 10)
    running.join()
    assert counts(stage) == {"RETRIED": 2, "DLQ": 1}
