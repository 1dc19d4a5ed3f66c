"""What an operator and an admin can do, each with a question before it."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from flask import Flask
from flask.testing import FlaskClient

from factories import trail
from stage import Stage

Post = Callable[..., Any]
MODAL = {"HX-Request": "true", "HX-Target": "div#modal-body"}


def state(stage: Stage, id_: UUID) -> str:
    return str(stage.value("SELECT current_state FROM webhook_deliveries WHERE id = %s", id_))


def test_a_dead_letter_is_replayed(operator: FlaskClient, post: Post, stage: Stage) -> None:
    (dead,) = stage.dead(stage.subscription().id, 1)
    asked = operator.get(f"/deliveries/{dead}/confirm/replay").text
    assert "Replay this delivery?" in asked
    answer = post(operator, f"/deliveries/{dead}/replay", reason="mended")
    assert (answer.status_code, answer.location) == (303, f"/deliveries/{dead}")
    assert trail(stage.conn, dead)[-2:] == ["REPLAYED", "RETRIED"]
    page = operator.get(f"/deliveries/{dead}").text
    assert "user operator person: mended" in page


def test_a_sleeping_one_is_sent_now(operator: FlaskClient, post: Post, stage: Stage) -> None:
    (sleeping,) = stage.deliveries(stage.subscription().id)
    stage.send(sleeping, 503)
    assert "Send now this delivery?" in operator.get(f"/deliveries/{sleeping}/confirm/replay").text
    post(operator, f"/deliveries/{sleeping}/replay")
    due = "SELECT next_attempt_at <= fencepost_now() FROM webhook_deliveries WHERE id = %s"
    assert stage.value(due, sleeping) is True


def test_one_is_discarded_and_leaves_the_dlq(
    operator: FlaskClient, post: Post, stage: Stage
) -> None:
    (dead,) = stage.dead(stage.subscription().id, 1)
    assert str(dead) in operator.get("/dlq").text
    assert post(operator, f"/deliveries/{dead}/discard", reason="known").status_code == 303
    assert str(dead) not in operator.get("/dlq").text
    page = operator.get(f"/deliveries/{dead}").text
    assert "discarded" in page
    assert "confirm/replay" not in page


def test_what_changed_meanwhile_is_said(operator: FlaskClient, post: Post, stage: Stage) -> None:
    (dead,) = stage.dead(stage.subscription().id, 1)
    assert post(operator, f"/deliveries/{dead}/replay").status_code == 303
    stage.attempt(stage.claim(dead))
    answer = post(operator, f"/deliveries/{dead}/replay")
    assert answer.status_code == 409
    assert "is ATTEMPTED" in answer.text
    assert state(stage, dead) == "ATTEMPTED"
    assert "Not possible now" in operator.get(f"/deliveries/{dead}/confirm/replay").text


@pytest.mark.parametrize(
    ("made_so", "reason"),
    [
        (
            "UPDATE webhook_subscriptions SET removed_at = fencepost_now()",
            "subscription was removed",
        ),
        ("UPDATE webhook_events SET erased_at = fencepost_now()", "payload was erased"),
    ],
)
@pytest.mark.parametrize("dead", [True, False])
def test_what_cannot_be_sent_is_not_offered_and_refused_with_the_reason(
    operator: FlaskClient, post: Post, stage: Stage, made_so: Any, reason: str, *, dead: bool
) -> None:
    sub = stage.subscription()
    if dead:
        (found,) = stage.dead(sub.id, 1)
    else:
        (found,) = stage.deliveries(sub.id)
        stage.send(found, 503)
    before = state(stage, found)
    assert "confirm/replay" in operator.get(f"/deliveries/{found}").text
    stage.conn.execute(made_so)
    page = operator.get(f"/deliveries/{found}").text
    assert "confirm/replay" not in page
    assert "confirm/discard" in page
    assert reason in page
    asked = operator.get(f"/deliveries/{found}/confirm/replay").text
    assert "Not possible now" in asked
    assert reason in asked
    answer = post(operator, f"/deliveries/{found}/replay")
    assert answer.status_code == 409
    assert reason in answer.text
    assert state(stage, found) == before


def test_a_reason_that_cannot_be_kept_is_named(
    operator: FlaskClient, post: Post, stage: Stage
) -> None:
    (dead,) = stage.dead(stage.subscription().id, 1)
    answer = post(operator, f"/deliveries/{dead}/replay", reason="x" * 1000)
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in answer.text
    assert state(stage, dead) == "DLQ"


def draft(client: FlaskClient, post: Post, **scope: object) -> str:
    answer = post(client, "/replays", all="1", state="dlq", discarded="0", **scope)
    assert answer.status_code == 303
    return str(answer.location)


def test_all_that_match_are_counted_exactly_and_replayed(
    operator: FlaskClient, post: Post, stage: Stage
) -> None:
    sub, other = stage.subscription("one"), stage.subscription("other")
    stage.dead(sub.id, 120)
    stage.dead(other.id, 5)
    page = operator.get(f"/dlq?sub={sub.id}").text
    assert "Replay all 120 that match" in page
    form = page[page.index('id="of-all"') :]
    fields = dict(re.findall(r'type="hidden" name="([a-z]+)" value="([^"]+)"', form)[:2])
    assert fields == {"all": "1", "filter": f"sub={sub.id}&amp;state=dlq&amp;discarded=0"}
    url = draft(operator, post, sub=sub.id)
    stage.dead(sub.id, 3)  # what comes after the draft is not part of it
    asked = operator.get(url).text
    assert '<span data-testid="replay-count">120</span>' in asked
    assert '<strong data-testid="replay-eligible">120</strong>' in asked
    for confirm in ("", "119", "abc", "-120", "1e2"):
        answer = post(operator, f"{url}/start", reason="mended", confirm=confirm)
        assert answer.status_code == 422, confirm
        assert "Type 120 to confirm" in answer.text
    assert post(operator, f"{url}/start", confirm="120").status_code == 422
    started = post(operator, f"{url}/start", reason="mended", confirm="120")
    assert (started.status_code, started.location) == (303, url)
    running = operator.get(url).text
    assert "running" in running
    assert "0</b> of 120 requeued" in running
    assert "Replay running" in operator.get("/overview").text


def test_starting_twice_starts_once(
    app: Flask, operator: FlaskClient, post: Post, stage: Stage, token: Callable[..., str]
) -> None:
    stage.dead(stage.subscription().id, 2)
    url = draft(operator, post)
    fields = {"csrf_token": token(operator), "reason": "mended", "confirm": "2"}
    cookies = {
        name: operator.get_cookie(name).value  # type: ignore[union-attr]
        for name in ("fencepost_session", "fencepost_form")
    }

    def start(_: int) -> int:
        client = app.test_client()
        for name, value in cookies.items():
            client.set_cookie(name, value)
        return client.post(f"{url}/start", data=fields).status_code

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(start, range(4))) == {303}
    starts = "SELECT count(*) FROM webhook_operator_actions WHERE action = 'replay.start'"
    assert stage.value(starts) == 1


def test_an_old_draft_is_not_started(operator: FlaskClient, post: Post, stage: Stage) -> None:
    stage.dead(stage.subscription().id, 1)
    url = draft(operator, post)
    stage.conn.execute("UPDATE webhook_replays SET expires_at = fencepost_now()")
    for answer in (operator.get(url), post(operator, f"{url}/start", reason="r", confirm="1")):
        assert "<h1>This count has expired</h1>" in answer.text
        assert "replay-start" not in answer.text
    assert answer.status_code == 409
    fields = re.findall(r'type="hidden" name="([a-z]+)" value="([^"]+)"', answer.text)
    scope = {name: value for name, value in fields if name != "csrf_token"}
    assert scope == {"all": "1", "state": "dlq", "discarded": "0"}
    stage.dead(stage.subscription("later").id, 2)
    again = operator.get(post(operator, "/replays", **scope).location).text
    assert '<strong data-testid="replay-eligible">3</strong>' in again


def test_who_may_not_start_a_draft_is_shown_its_numbers_and_no_form(
    operator: FlaskClient, viewer: FlaskClient, post: Post, stage: Stage
) -> None:
    stage.dead(stage.subscription().id, 2)
    url = draft(operator, post)
    for _ in range(2):
        page = viewer.get(url).text
        assert '<strong data-testid="replay-eligible">2</strong>' in page
        assert f"{url}/start" not in page
        assert "replay-recount" not in page
        stage.conn.execute("UPDATE webhook_replays SET expires_at = fencepost_now()")


def test_a_draft_says_who_gets_how_many_in_which_order_and_how_long_it_takes(
    operator: FlaskClient, post: Post, stage: Stage
) -> None:
    big, small = stage.subscription("big"), stage.subscription("small")
    stage.dead(big.id, 40)
    gone, *_ = stage.dead(small.id, 3)
    stage.discard(gone)
    url = post(operator, "/replays", all="1", state="dlq").location
    page = operator.get(url).text
    assert "<li>big: 40</li><li>small: 2</li>" in page
    assert '<span data-testid="replay-reasons">1 discarded</span>' in page
    for rate, told in (
        ("", "at once, sent as fast as receivers answer"), ("20", "about 2 s"),
        ("0.5", "about 1 m"), ("fast", ""), ("-1", ""),
    ):  # fmt: skip
        assert f">{told}</span>" in operator.get(f"/_f{url}/estimate?rate={rate}").text
    started = {"reason": "mended", "confirm": "42", "rate": "0.5", "order": "newest_first"}
    assert post(operator, f"{url}/start", **started).status_code == 303
    assert post(operator, f"{url}/start", **started).status_code == 303
    other = post(operator, f"{url}/start", **started | {"order": "oldest_first"})
    assert other.status_code == 409
    page = operator.get(url).text
    assert "newest first" in page
    assert "0.5 per second to each subscription" in page
    assert '<dd data-testid="replay-left">about 1 m</dd>' in page


def test_what_was_delivered_is_sent_again_behind_a_tick(
    operator: FlaskClient, post: Post, stage: Stage
) -> None:
    (found,) = stage.deliveries(stage.subscription().id)
    stage.send(found, 200)
    url = post(operator, "/replays", all="1", state="delivered").location
    assert "Send 1 again although it was delivered" in operator.get(url).text
    answer = post(operator, f"{url}/start", reason="asked for", confirm="1")
    assert answer.status_code == 422
    assert 'id="fault-again"' in answer.text
    assert (
        post(operator, f"{url}/start", reason="asked for", confirm="1", again="1").location == url
    )


def test_progress_tells_outcomes_apart_and_names_the_first_failures(
    operator: FlaskClient, post: Post, stage: Stage
) -> None:
    dead = stage.dead(stage.subscription().id, 4)
    url = draft(operator, post)
    post(operator, f"{url}/start", reason="mended", confirm="4")
    stage.requeue()
    stage.send(dead[0], 200)
    stage.send(dead[1], 404)
    stage.send(dead[2], 503)
    stage.count_outcomes()
    page = operator.get(url).text
    numbers = dict(re.findall(r'<b data-testid="replay-([a-z-]+)">(\d+)</b>', page))
    assert numbers == {
        "requeued": "4", "delivered": "1", "failed": "1", "in-flight": "2", "skipped": "0",
        "remaining": "0",
    }  # fmt: skip
    failures = page.split('data-testid="replay-failures"')[1].split("</p>")[0]
    assert re.findall(r'href="/deliveries/([^"]+)"', failures) == [str(dead[1]), str(dead[2])]
    assert "404" in failures
    assert "503" in failures


def test_one_that_paused_itself_says_why_wherever_it_is_shown(
    operator: FlaskClient, admin: FlaskClient, post: Post, stage: Stage
) -> None:
    dead = stage.dead(stage.subscription().id, 55)
    url = draft(operator, post)
    started = {"reason": "mended", "confirm": "55", "rate": "52"}
    post(operator, f"{url}/start", **started)
    stage.requeue()
    for one in dead:
        if stage.value("SELECT replay_id FROM webhook_deliveries WHERE id = %s", one):
            stage.send(one, 503)
    stage.count_outcomes()
    why = "of its last 50 attempts failed"
    for path in (url, "/replays", "/overview", "/_f/replays/running"):
        assert why in operator.get(path).text, path
    assert why in admin.get("/audit").text
    assert post(operator, f"{url}/resume").status_code == 303
    assert why not in operator.get(url).text


def test_the_bar_of_running_replays_refreshes_and_goes(
    operator: FlaskClient, post: Post, stage: Stage
) -> None:
    stage.dead(stage.subscription().id, 1)
    url = draft(operator, post)
    post(operator, f"{url}/start", reason="mended", confirm="1")
    topic = f'data-topic="replay:{url.removeprefix("/replays/")}"'
    assert topic in operator.get("/subscriptions").text
    region = operator.get("/_f/replays/running")
    assert topic in region.text
    unchanged = {"If-None-Match": region.headers["ETag"]}
    assert operator.get("/_f/replays/running", headers=unchanged).status_code == 304
    stage.requeue()
    assert operator.get("/_f/replays/running").text.strip().endswith("hidden>\n</aside>")
    assert "running-replays" not in operator.get("/subscriptions").text


def test_an_empty_scope_has_nothing_to_start(operator: FlaskClient, post: Post) -> None:
    page = operator.get(draft(operator, post)).text
    assert "<h1>Nothing to replay</h1>" in page
    assert "Nothing matches this scope" in page
    assert "replay-start" not in page


def test_a_scope_of_what_cannot_be_sent_says_so_and_has_nothing_to_start(
    operator: FlaskClient, post: Post, stage: Stage
) -> None:
    stage.dead(stage.subscription().id, 2)
    stage.conn.execute("UPDATE webhook_subscriptions SET removed_at = fencepost_now()")
    page = operator.get(draft(operator, post)).text
    assert "<h1>Nothing to replay</h1>" in page
    assert '<span data-testid="replay-count">2</span> match, but none can be sent again' in page
    assert '<span data-testid="replay-reasons">2 subscription removed</span>' in page
    assert "replay-start" not in page


def test_a_scope_that_cannot_be_read_drafts_nothing(
    operator: FlaskClient, post: Post, stage: Stage
) -> None:
    assert post(operator, "/replays", all="1", sub="nonsense").status_code == 422
    assert stage.value("SELECT count(*) FROM webhook_replays") == 0


def test_a_replay_is_paused_resumed_and_cancelled(
    operator: FlaskClient, post: Post, stage: Stage
) -> None:
    stage.dead(stage.subscription().id, 3)
    url = draft(operator, post)
    post(operator, f"{url}/start", reason="mended", confirm="3", rate="0.5")
    for action, shown in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        assert post(operator, f"{url}/{action}").location == url
        found = re.search(
            r'data-testid="replay-state">.*?</svg>(\w+)', operator.get(url).text, re.DOTALL
        )
        assert found is not None
        assert found[1] == shown
    assert "Stop the remaining 3?" in operator.get(f"{url}/confirm/cancel").text
    assert post(operator, f"{url}/resume").status_code == 409
    assert "3</b> not sent again" in operator.get(url).text
    region = operator.get(f"/_f{url}/progress")
    assert operator.get(f"/_f{url}/progress", headers={"If-None-Match": region.headers["ETag"]}
                        ).status_code == 304  # fmt: skip


def test_a_bad_rate_is_named(operator: FlaskClient, post: Post, stage: Stage) -> None:
    stage.dead(stage.subscription().id, 1)
    url = draft(operator, post)
    for rate in ("fast", "0", "-1", "nan", "1e400"):
        answer = post(operator, f"{url}/start", reason="mended", confirm="1", rate=rate)
        assert answer.status_code == 422, rate
        assert 'id="fault-rate_per_second"' in answer.text


def test_the_same_question_fits_a_dialog(operator: FlaskClient, post: Post, stage: Stage) -> None:
    sub = stage.subscription()
    (dead,) = stage.dead(sub.id, 1)
    url = draft(operator, post)
    for path in (
        f"/deliveries/{dead}/confirm/replay", url, f"/subscriptions/{sub.id}/confirm/pause",
        f"{url}/confirm/cancel",
    ):  # fmt: skip
        fragment = operator.get(path, headers=MODAL).text
        assert fragment.lstrip().startswith('<div class="card"'), path
        assert 'hx-target="#modal-body"' in fragment
        assert "hx-post" not in operator.get(path).text.split("<main")[1]


def test_a_subscription_is_added_and_its_secret_shown_once(
    admin: FlaskClient, post: Post, stage: Stage
) -> None:
    answer = post(
        admin, "/subscriptions", name="acme", url="https://acme.test/token-0123456789abcdef/in",
        event_types="invoice.* order.paid", max_attempts="7", signature_scheme="standard",
        retry_preset="", signature_header="",
    )  # fmt: skip
    assert answer.status_code == 201
    secret = re.search(r"whsec_[A-Za-z0-9+/=]+", answer.text)
    assert secret is not None
    assert answer.headers["Cache-Control"] == "no-store"
    id_ = stage.value("SELECT id FROM webhook_subscriptions")
    page = admin.get(f"/subscriptions/{id_}").text
    assert secret[0] not in page
    assert "0123456789abcdef" not in page
    assert "invoice.*" in page


def test_a_subscription_that_cannot_be_is_explained(admin: FlaskClient, post: Post) -> None:
    for field, fields in {
        "url": {"name": "x", "url": "http://10.0.0.1/"},
        "name": {"name": "", "url": "https://acme.test/"},
        "max_attempts": {"name": "x", "url": "https://acme.test/", "max_attempts": "many"},
        "event_types": {"name": "x", "url": "https://acme.test/", "event_types": "a..b"},
    }.items():
        answer = post(admin, "/subscriptions", **fields)
        assert answer.status_code == 422, field
        assert f'id="fault-{field}"' in answer.text
        assert f'aria-describedby="fault-{field}"' in answer.text


def test_a_subscription_is_paused_with_a_reason_and_resumed(
    operator: FlaskClient, post: Post, stage: Stage
) -> None:
    sub = stage.subscription()
    stage.deliveries(sub.id, 2)
    assert "2 deliveries are waiting" in operator.get(f"/subscriptions/{sub.id}/confirm/pause").text
    post(operator, f"/subscriptions/{sub.id}/pause", reason="their maintenance")
    assert "their maintenance" in operator.get(f"/subscriptions/{sub.id}").text
    post(operator, f"/subscriptions/{sub.id}/resume")
    assert stage.value("SELECT state FROM webhook_subscriptions") == "active"


def test_a_test_event_leads_to_its_page(operator: FlaskClient, post: Post, stage: Stage) -> None:
    sub = stage.subscription()
    answer = post(operator, f"/subscriptions/{sub.id}/test")
    assert answer.status_code == 303
    assert "fencepost.test" in operator.get(answer.location).text


def test_secrets_are_rotated_and_revoked(admin: FlaskClient, post: Post, stage: Stage) -> None:
    sub = stage.subscription()
    rotated = post(admin, f"/subscriptions/{sub.id}/rotate-secret")
    assert "whsec_" in rotated.text
    valid = (
        "SELECT count(*) FROM webhook_signing_secrets"
        " WHERE expires_at IS NULL OR expires_at > fencepost_now()"
    )
    assert stage.value(valid) == 2
    assert post(admin, f"/subscriptions/{sub.id}/revoke-secret").status_code == 303
    assert stage.value(valid) == 1


def test_a_removed_subscription_keeps_its_page(
    admin: FlaskClient, post: Post, stage: Stage
) -> None:
    sub = stage.subscription()
    assert post(admin, f"/subscriptions/{sub.id}/remove").status_code == 303
    page = admin.get(f"/subscriptions/{sub.id}").text
    assert "removed" in page
    assert "confirm/pause" not in page
    assert post(admin, f"/subscriptions/{sub.id}/pause").status_code == 404


def test_an_operator_cannot_ask_for_what_needs_an_admin(
    operator: FlaskClient, stage: Stage
) -> None:
    sub = stage.subscription()
    assert operator.get(f"/subscriptions/{sub.id}/confirm/remove").status_code == 403
    assert operator.get(f"/subscriptions/{sub.id}/confirm/nonsense").status_code == 404
