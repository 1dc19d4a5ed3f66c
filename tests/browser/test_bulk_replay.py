"""A bulk replay: of exactly what was counted, never unasked, and with or without its page."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from playwright.sync_api import Locator, Page, expect

from lively import Lively, is_live
from serving import Site
from stage import Stage
from waiting import eventually

TRAIL = "webhook_delivery_attempts a JOIN webhook_deliveries d ON d.id = a.delivery_id"
SEND_TWICE = """form => {
  const send = () => fetch(form.action, {method: 'POST', body: new FormData(form)});
  return Promise.all([send(), send()]).then(all => all.map(one => [one.status, one.url]));
}"""


def ask(page: Page, sub: UUID) -> tuple[Locator, UUID]:
    """Choose all dead letters of a subscription; give the question and the draft behind it."""
    page.goto(f"/dlq?sub={sub}")
    page.get_by_test_id("replay-all").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    return dialog, draft_in(dialog)


def draft_in(place: Locator) -> UUID:
    action = str(place.locator("form[action$='/start']").get_attribute("action"))
    return UUID(action.split("/")[2])


def started(stage: Stage, replay: UUID) -> tuple[int, int]:
    """Count how often it was started, and the deliveries that belong to it."""
    starts = "SELECT count(*) FROM webhook_operator_actions WHERE target = %s AND action = %s"
    members = "SELECT count(*) FROM webhook_deliveries WHERE replay_id = %s"
    return stage.value(starts, str(replay), "replay.start"), stage.value(members, replay)


def numbers(page: Page) -> dict[str, int]:
    found = page.locator(".numbers b[data-testid]").all()
    return {
        str(one.get_attribute("data-testid")).removeprefix("replay-"): int(one.inner_text())
        for one in found
    }


@pytest.mark.check(10)
def test_the_numbers_are_those_of_the_database_and_nothing_else_is_touched(
    site: Site, page: Page
) -> None:
    stage = site.stage
    sub, other = stage.subscription("counted"), stage.subscription("not counted")
    dead = stage.dead(sub.id, 20)
    stage.dead(other.id, 4)
    stage.conn.execute(
        "UPDATE webhook_events SET erased_at = fencepost_now() WHERE id IN"
        " (SELECT event_id FROM webhook_deliveries WHERE id = ANY(%s))",
        (dead[:3],),
    )
    dialog, replay = ask(page, sub.id)
    matching = "SELECT count(*) FROM webhook_deliveries WHERE dead_at IS NOT NULL"
    matched = stage.value(f"{matching} AND subscription_id = %s", sub.id)
    expect(dialog.get_by_test_id("replay-count")).to_have_text(str(matched))
    expect(dialog.get_by_test_id("replay-eligible")).to_have_text("17")
    expect(dialog.get_by_test_id("replay-reasons")).to_have_text("3 payload erased")
    expect(dialog.get_by_test_id("replay-parts").get_by_role("listitem")).to_have_text(
        "counted: 17"
    )
    before = stage.value(f"SELECT count(*) FROM {TRAIL} WHERE d.subscription_id = %s", other.id)
    late = stage.dead(sub.id, 5)
    for gone in dead[3:5]:
        stage.discard(gone)
    dialog.get_by_label("Reason").fill("they mended it")
    dialog.get_by_test_id("replay-start").click()
    page.wait_for_url(f"**/replays/{replay}")
    stage.requeue()
    page.reload()
    expect(page.get_by_test_id("replay-state")).to_contain_text("done")
    shown = numbers(page)
    assert (shown["requeued"], shown["skipped"], shown["remaining"]) == (15, 2, 0)
    replayed = f"SELECT count(*) FROM {TRAIL} WHERE a.state = 'REPLAYED'"
    assert stage.value(f"{replayed} AND d.id = ANY(%s)", dead[5:]) == 15
    assert stage.value(f"{replayed} AND d.id = ANY(%s)", dead[:5] + late) == 0
    after = stage.value(f"SELECT count(*) FROM {TRAIL} WHERE d.subscription_id = %s", other.id)
    assert after == before
    assert started(stage, replay) == (1, 15)


@pytest.mark.check(11)
def test_a_request_of_ones_own_gets_no_further_than_the_form(
    site: Site, page: Page, new_page: Callable[..., Page]
) -> None:
    stage = site.stage
    sub = stage.subscription("to force")
    stage.dead(sub.id, 101)
    dialog, replay = ask(page, sub.id)
    token = str(dialog.locator("input[name=csrf_token]").first.get_attribute("value"))
    whole = {"csrf_token": token, "reason": "mended", "confirm": "101"}

    def status(path: str, form: dict[str, str], by: Page = page) -> int:
        return by.request.post(path, form={**form}, max_redirects=0).status

    start = f"/replays/{replay}/start"
    for part in ({"confirm": "100"}, {"confirm": ""}, {"reason": ""}, {"reason": "  "}):
        assert status(start, whole | part) == 422, part
    assert status("/replays", {"csrf_token": token, "sub": str(sub.id)}) == 422
    without_token = {name: value for name, value in whole.items() if name != "csrf_token"}
    assert status(start, without_token) == 403
    viewer = new_page("viewer")
    viewer.goto("/dlq")
    own = str(viewer.locator("input[name=csrf_token]").first.get_attribute("value"))
    assert status(start, whole | {"csrf_token": own}, viewer) == 403
    assert started(stage, replay) == (0, 0)
    assert stage.value("SELECT state FROM webhook_replays WHERE id = %s", replay) == "DRAFT"


@pytest.mark.check(11)
def test_two_starts_at_once_are_one_replay(site: Site, page: Page) -> None:
    stage = site.stage
    sub = stage.subscription("started twice")
    stage.dead(sub.id, 30)
    dialog, replay = ask(page, sub.id)
    dialog.get_by_label("Reason").fill("mended")
    answers = dialog.locator("form[action$='/start']").evaluate(SEND_TWICE)
    assert answers == [[200, f"{site.url}/replays/{replay}"]] * 2
    stage.requeue()
    assert started(stage, replay) == (1, 30)
    replayed = f"SELECT count(*) FROM {TRAIL} WHERE a.state = 'REPLAYED' AND d.replay_id = %s"
    assert stage.value(replayed, replay) == 30


@pytest.mark.check(11)
def test_a_count_that_has_expired_is_made_again_in_the_dialog(site: Site, page: Page) -> None:
    stage = site.stage
    sub = stage.subscription("left open")
    stage.dead(sub.id, 2)
    dialog, replay = ask(page, sub.id)
    stage.conn.execute(
        "UPDATE webhook_replays SET expires_at = fencepost_now() WHERE id = %s", (replay,)
    )
    stage.dead(sub.id, 3)
    page.allow("409")  # type: ignore[attr-defined]
    dialog.get_by_label("Reason").fill("mended")
    dialog.get_by_test_id("replay-start").click()
    expect(dialog.get_by_role("heading")).to_have_text("This count has expired")
    expect(dialog.get_by_test_id("replay-recount")).to_be_focused()
    expect(page.locator("#alerts")).to_be_empty()
    assert started(stage, replay) == (0, 0)
    dialog.get_by_test_id("replay-recount").click()
    expect(dialog.get_by_test_id("replay-eligible")).to_have_text("5")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    assert draft_in(dialog) != replay


@pytest.mark.check(12)
def test_it_goes_on_without_its_page_and_ends_when_told_to(
    lively: Lively, new_page: Callable[..., Page]
) -> None:
    stage, sub = lively.site.stage, lively.subscribe("bulk").id
    lively.publish("bulk", 240)
    lively.wait(sub, "DLQ", 240)
    page = new_page(at=lively.site)
    dialog, replay = ask(page, sub)
    dialog.get_by_label("Reason").fill("they mended it")
    dialog.get_by_label("Per second").fill("20")
    expect(dialog.get_by_test_id("replay-estimate")).to_have_text("about 12 s")
    dialog.get_by_label("Type 240 to confirm").fill("240")
    dialog.get_by_test_id("replay-start").click()
    page.wait_for_url(f"**/replays/{replay}")
    expect(page.get_by_test_id("replay-progress")).to_contain_text("You can close this page")
    requeued = "SELECT requeued FROM webhook_replays WHERE id = %s"
    left_at = stage.value(requeued, replay)
    context = page.context
    page.close()
    eventually(lambda: stage.value(requeued, replay) >= left_at + 40)
    page = context.new_page()
    page.goto(f"/replays/{replay}")
    is_live(page)
    expect(page.get_by_test_id("replay-state")).to_contain_text("running")
    page.get_by_role("link", name="Cancel…").click()
    told_at = stage.value("SELECT fencepost_now()")
    page.get_by_role("dialog").get_by_role("button", name="Stop it").click()
    expect(page.get_by_test_id("replay-state")).to_contain_text("cancelled")
    done = stage.value(requeued, replay)
    eventually(lambda: stage.value(
        "SELECT delivered = requeued FROM webhook_replays WHERE id = %s", replay))  # fmt: skip
    assert stage.value(requeued, replay) == done
    late = f"{TRAIL} WHERE a.state = 'REPLAYED' AND d.replay_id = %s"
    assert stage.value(f"SELECT count(*) FROM {late}", replay) == done
    lasted = stage.value(f"SELECT max(a.created_at) FROM {late}", replay) - told_at
    assert lasted.total_seconds() < 2
    expect(page.get_by_test_id("replay-delivered")).to_have_text(str(done))
    shown = numbers(page)
    assert shown["requeued"] + shown["remaining"] == 240
    assert (shown["requeued"], shown["in-flight"], shown["failed"]) == (done, 0, 0)
    assert stage.value(
        "SELECT count(*) FROM webhook_deliveries WHERE subscription_id = %s"
        " AND current_state = 'DLQ'", sub) == shown["remaining"]  # fmt: skip
    acts = stage.conn.execute(
        "SELECT action, actor, params ->> 'reason' FROM webhook_operator_actions"
        " WHERE target = %s ORDER BY id", (str(replay),)).fetchall()  # fmt: skip
    who = f"user {page.locator('.who').inner_text()}"
    assert acts[1:] == [
        ("replay.start", who, "they mended it"),
        ("replay.cancel", who, "they mended it"),
    ]
    assert acts[0][:2] == ("replay.draft", who)
