"""The dead letters: by cause, one by one, selected, given up, and as a file."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from flask.testing import FlaskClient

from dashboard import export
from factories import trail
from fencepost.store import dead_groups, giving_up
from stage import Stage

Post = Callable[..., Any]
DEAD = "SELECT count(*) FROM webhook_deliveries WHERE dead_at IS NOT NULL AND discarded_at IS NULL"
REGION = {"HX-Request": "true", "HX-Target": "tbody#groups"}


def rows_of(page: str) -> list[str]:
    """Give the text of each group, tags left out."""
    found = re.findall(r'<tr id="g-[0-9a-f]{8}".*?</tr>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in found]


def test_it_shows_causes_with_counts_and_what_to_do(operator: FlaskClient, stage: Stage) -> None:
    shop, gone = stage.subscription("shop"), stage.subscription("gone")
    stage.dead(shop.id, 3)
    stage.dead(gone.id, 1)
    stage.conn.execute(
        "UPDATE webhook_subscriptions SET removed_at = fencepost_now() WHERE id = %s", (gone.id,)
    )
    page = operator.get("/dlq").text
    first, second = rows_of(page)
    assert first.startswith("http_4xx 404 shop 3 ")
    assert "Replay 3…" in first
    assert second.startswith("http_4xx 404 gone 1 ")
    assert "not replayable" in second
    assert "The subscription was removed: there is nowhere to send them." in second
    assert "Replay all 4 that match…" in page
    assert re.search(r"<b>4</b> \(<a [^>]+>\+4 in the last hour", page)


def test_a_cause_leads_to_its_rows_and_a_viewer_has_no_buttons(
    viewer: FlaskClient, stage: Stage
) -> None:
    shop = stage.subscription("shop")
    dead = stage.dead(shop.id, 2)
    stage.dead(stage.subscription("other").id, 1)
    page = viewer.get("/dlq").text
    assert "<button" not in page[page.index('id="groups"') : page.index("</tbody>")]
    link = re.search(r'data-main href="([^"]+)">http_4xx', page)
    assert link is not None
    rows = viewer.get(link[1].replace("&amp;", "&")).text
    assert set(re.findall(r'<tr id="row-([0-9a-f-]+)"', rows)) == {str(one) for one in dead}
    assert 'type="checkbox" id="pick' not in rows


def test_an_unknown_grouping_is_named(viewer: FlaskClient) -> None:
    assert viewer.get("/dlq?group=reason").status_code == 422


def test_a_refresh_never_moves_a_group(viewer: FlaskClient, stage: Stage) -> None:
    small, large = stage.subscription("small"), stage.subscription("large")
    stage.dead(small.id, 1)
    stage.dead(large.id, 2)
    page = viewer.get("/dlq").text
    url = re.search(r'hx-get="(/_f/dlq/groups[^"]+)"', page)
    assert url is not None
    address = url[1].replace("&amp;", "&")
    stage.dead(small.id, 5)
    stage.dead(stage.subscription("new").id, 9)
    region = viewer.get(address, headers=REGION)
    order = [row.split()[2:4] for row in rows_of(region.text)]
    assert order == [["large", "2"], ["small", "6"], ["new", "9"]]
    same = viewer.get(address, headers={**REGION, "If-None-Match": region.headers["ETag"]})
    assert same.status_code == 304
    fresh = [row.split()[2:4] for row in rows_of(viewer.get("/dlq").text)]
    assert fresh == [["new", "9"], ["small", "6"], ["large", "2"]]


def test_many_say_as_of_when_they_were_counted(
    operator: FlaskClient, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_groups, "FEW", 1)
    stage.dead(stage.subscription("shop").id, 120)
    assert "Only the latest 1 are counted." in operator.get("/dlq").text
    with stage.conn.transaction():
        dead_groups.recount(stage.conn)
    page = operator.get("/dlq").text
    assert "Counted <time" in page
    assert "about 120" in rows_of(page)[0]
    assert re.search(r'data-testid="dlq-totals"><b>about 120</b> at <time', page)


def test_an_empty_queue_tells_its_past(viewer: FlaskClient, stage: Stage) -> None:
    page = viewer.get("/dlq").text
    assert "Nothing in the DLQ." in page
    assert "when its budget of attempts is spent" in page
    stage.conn.execute(
        "INSERT INTO webhook_rollups SELECT '00000000-0000-0000-0000-000000000000', 1,"
        " date_trunc('minute', fencepost_now()), 0, 0, 0, 0, 0, 0, 0, 0, 1, 7, 0, 0, '{}', '{}'"
    )
    for group in ("signature", "none"):
        page = viewer.get(f"/dlq?group={group}").text
        assert "The last one entered <time" in page
        assert "7 deliveries were replayed in the last seven days." in page


def test_an_empty_choice_lists_the_filters(viewer: FlaskClient, stage: Stage) -> None:
    stage.dead(stage.subscription().id, 1)
    for group in ("signature", "none"):
        page = viewer.get(f"/dlq?group={group}&code=418&type=a.*").text
        assert "No dead letters match." in page
        assert "limited to event type a.*, answer 418." in page
        assert "Clear the filters" in page


def test_the_oldest_page_is_one_step_away(viewer: FlaskClient, stage: Stage) -> None:
    stage.dead(stage.subscription().id, 60)
    first = viewer.get("/dlq?group=none&limit=25").text
    oldest = re.search(r'href="([^"]+)"[^>]*>Oldest<', first)
    assert oldest is not None
    page = viewer.get(oldest[1].replace("&amp;", "&")).text
    shown = re.findall(r'<tr id="row-([0-9a-f-]+)"', page)
    earliest = stage.conn.execute(
        "SELECT id::text FROM webhook_deliveries ORDER BY dead_at, id LIMIT 25"
    ).fetchall()
    assert shown == [row[0] for row in earliest[::-1]]
    assert ">Older<" not in page
    assert ">Newest<" in page
    assert ">Newer<" in page


def test_what_cannot_be_sent_again_says_why(viewer: FlaskClient, stage: Stage) -> None:
    stage.dead(stage.subscription().id, 1)
    stage.conn.execute("UPDATE webhook_events SET erased_at = fencepost_now()")
    assert "not replayable: payload erased" in viewer.get("/dlq?group=none").text


def test_a_copied_link_fixes_the_times(viewer: FlaskClient, stage: Stage) -> None:
    stage.dead(stage.subscription().id, 1)
    for group in ("signature", "none"):
        page = viewer.get(f"/dlq?group={group}&from=-1h").text
        link = re.search(r'id="pinned">([^<]+)<', page)
        assert link is not None
        url = urlsplit(link[1].replace("&amp;", "&"))
        params = parse_qs(url.query)
        assert url.netloc == "localhost"
        assert params["from"][0].startswith("20")
        assert params.get("group") == (["none"] if group == "none" else None)
        assert viewer.get(f"{url.path}?{url.query}").status_code == 200


# selection


def hidden(page: str) -> dict[str, str]:
    form = page[page.index('id="selection"') :]
    form = form[: form.index("</form>")]
    found = dict(re.findall(r'type="hidden" name="([a-z]+)" value="([^"]+)"', form))
    return {name: value.replace("&amp;", "&") for name, value in found.items()}


def test_picked_rows_are_drafted_and_only_those(
    operator: FlaskClient, post: Post, stage: Stage
) -> None:
    sub = stage.subscription()
    dead = stage.dead(sub.id, 5)
    fields = hidden(operator.get(f"/dlq?group=none&sub={sub.id}").text)
    assert fields == {"filter": f"sub={sub.id}&state=dlq&discarded=0"}
    picked = [str(one) for one in dead[:3]]
    for path, thing in (("/replays", "replay"), ("/discards", "discard")):
        answer = post(operator, path, **fields, pick=picked)
        assert answer.status_code == 303
        page = operator.get(answer.location).text
        assert f'data-testid="{thing}-eligible">3<' in page
        assert "3 picked dead letters" in page
        everything = operator.get(post(operator, path, **fields, pick=picked, all="1").location)
        assert f'data-testid="{thing}-eligible">5<' in everything.text


@pytest.mark.parametrize("path", ["/replays", "/discards"])
def test_nothing_selected_is_refused(
    operator: FlaskClient, post: Post, stage: Stage, path: str
) -> None:
    stage.dead(stage.subscription().id, 1)
    answer = post(operator, path, state="dlq", discarded="0")
    assert answer.status_code == 422
    assert "Select at least one" in answer.text
    assert post(operator, path, state="dlq", pick="nonsense").status_code == 422
    assert stage.value("SELECT count(*) FROM webhook_replays") == 0
    assert stage.value("SELECT count(*) FROM webhook_discards") == 0


# discards


def test_many_are_discarded_behind_their_number_and_a_reason(
    operator: FlaskClient, post: Post, stage: Stage
) -> None:
    sub, other = stage.subscription("one"), stage.subscription("other")
    dead = stage.dead(sub.id, 120)
    stage.dead(other.id, 5)
    url = post(operator, "/discards", all="1", state="dlq", sub=str(sub.id)).location
    late = stage.dead(sub.id, 1)
    asked = operator.get(url).text
    assert '<strong data-testid="discard-eligible">120</strong>' in asked
    assert "dead letters: subscription one" in asked
    for confirm in ("", "119", "abc", "1e2"):
        answer = post(operator, f"{url}/start", reason="obsolete", confirm=confirm)
        assert answer.status_code == 422, confirm
        assert "Type 120 to confirm" in answer.text
    assert post(operator, f"{url}/start", confirm="120").status_code == 422
    started = post(operator, f"{url}/start", reason="obsolete", confirm="120")
    assert (started.status_code, started.location) == (303, url)
    assert "A discard of 120 is running" in operator.get("/dlq").text
    assert stage.value(DEAD) == 126, "nothing is done while somebody waits"
    with stage.conn.transaction():
        run = giving_up.take_running(stage.conn)
        assert run is not None
        giving_up.discard_batch(stage.conn, run)
    assert stage.value(DEAD) == 6
    assert trail(stage.conn, dead[0])[-2:] == ["DISCARDED", "DLQ"]
    assert trail(stage.conn, late[0])[-1] == "DLQ"
    page = operator.get(url).text
    assert '<b data-testid="discard-done">120</b> of 120 discarded' in page
    again = post(operator, f"{url}/start", reason="obsolete", confirm="120")
    assert again.status_code == 303
    region = operator.get(f"/_f{url}/progress")
    etag = {"If-None-Match": region.headers["ETag"]}
    assert operator.get(f"/_f{url}/progress", headers=etag).status_code == 304


def test_a_discard_is_cancelled(operator: FlaskClient, post: Post, stage: Stage) -> None:
    stage.dead(stage.subscription().id, 3)
    url = post(operator, "/discards", all="1", state="dlq").location
    post(operator, f"{url}/start", reason="obsolete", confirm="3")
    assert "Stop the remaining 3?" in operator.get(f"{url}/confirm/cancel").text
    assert post(operator, f"{url}/cancel").location == url
    assert "3</b> not discarded" in operator.get(url).text


def test_an_empty_scope_has_nothing_to_discard(operator: FlaskClient, post: Post) -> None:
    page = operator.get(post(operator, "/discards", all="1", state="dlq").location).text
    assert "Nothing to discard" in page
    assert "discard-start" not in page


def test_a_viewer_discards_nothing(viewer: FlaskClient, post: Post, stage: Stage) -> None:
    stage.dead(stage.subscription().id, 1)
    assert post(viewer, "/discards", all="1", state="dlq").status_code == 403


# files


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_the_list_is_handed_out_as_a_file(
    viewer: FlaskClient, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "BATCH", 2)
    formula = stage.subscription("=cmd|'/c calc'!A1")
    dead = stage.dead(formula.id, 5)
    stage.dead(stage.subscription("other").id, 1)
    answer = viewer.get(f"/dlq/export.csv?sub={formula.id}")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="dead-letters.csv"'
    assert answer.mimetype == "text/csv"
    rows = read_csv(answer.text)
    assert [row["delivery_id"] for row in rows] == [str(one) for one in sorted(dead)[::-1]]
    assert {row["subscription"] for row in rows} == {"'=cmd|'/c calc'!A1"}
    assert {(row["last_status"], row["last_error"]) for row in rows} == {("404", "http_4xx")}
    assert read_csv(viewer.get("/dlq/export.csv?code=418").text) == []


def test_a_file_that_was_cut_says_so_in_its_name(
    viewer: FlaskClient, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "BATCH", 2)
    monkeypatch.setattr(export, "MOST_ROWS", 3)
    stage.dead(stage.subscription().id, 5)
    answer = viewer.get("/dlq/export.csv")
    assert 'filename="dead-letters-first-3-of-5.csv"' in answer.headers["Content-Disposition"]
    assert len(read_csv(answer.text)) == 3


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx", "\rx"])
def test_no_cell_is_a_formula(text: str) -> None:
    assert export.cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["a=1", "", None, 503, "http_5xx"])
def test_other_cells_are_as_they_are(value: object) -> None:
    assert export.cell(value) == ("" if value is None else str(value))
