"""Paging through the DLQ while dead letters come and go."""

from __future__ import annotations

import random
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from serving import Site
from stage import Stage

pytestmark = pytest.mark.check(9)

DEAD = "SELECT id FROM webhook_deliveries WHERE subscription_id = %s AND current_state = 'DLQ'"


def dead(stage: Stage, sub: UUID) -> set[str]:
    return {str(row[0]) for row in stage.conn.execute(DEAD, (sub,))}


def shown(page: Page) -> list[str]:
    found: list[str] = page.locator("#rows [data-testid^=row-]").evaluate_all(
        "(rows) => rows.map((row) => row.dataset.testid.slice(4))"
    )
    return found


def walk(page: Page, link: str) -> bool:
    """Follow a link of the pager, if there is one, and wait for the page that it leads to."""
    found = page.locator(f".pager [rel={link}]")
    if not found.count():
        return False
    before = shown(page)[0]
    found.click()
    expect(page.get_by_test_id(f"row-{before}")).to_have_count(0)
    return True


def test_no_row_comes_twice_and_none_is_missed(site: Site, page: Page) -> None:
    stage, chance = site.stage, random.Random(9)
    sub = stage.subscription("a thousand dead letters")
    stage.dead(sub.id, 1_000)
    before = dead(stage, sub.id)
    page.goto(f"/dlq?sub={sub.id}&group=none&limit=100")
    seen = shown(page)
    left = sorted(before - set(seen))
    replayed: set[str] = set()
    while True:
        stage.dead(sub.id, 20)
        gone = chance.sample(sorted(before - replayed), 5)
        for each in gone:
            stage.send_again(UUID(each))
        replayed |= set(gone)
        if not walk(page, "next"):
            break
        seen += shown(page)
    assert len(left) == 900
    assert len(replayed) == 50
    assert len(seen) == len(set(seen)), "a row came twice"
    assert before - replayed <= set(seen), "a row that stayed was missed"
    assert set(seen) <= before, "what came later belongs above the first page"
    back = shown(page)
    while walk(page, "prev"):
        back = shown(page) + back
    assert len(back) == len(set(back))
    assert dead(stage, sub.id) <= set(back) | set(shown(page))


def test_the_last_page_is_one_step_away(site: Site, page: Page) -> None:
    stage = site.stage
    sub = stage.subscription("one step away")
    for _ in range(3):  # they enter the DLQ one after another
        stage.dead(sub.id, 60)
    page.goto(f"/dlq?sub={sub.id}&group=none&limit=100")
    newest = shown(page)
    page.get_by_role("link", name="Oldest", exact=True).click()
    expect(page.get_by_test_id(f"row-{newest[0]}")).to_have_count(0)
    seen = shown(page)
    assert len(seen) == 100
    expect(page.locator(".pager [rel=next]")).to_have_count(0)
    assert walk(page, "prev")
    seen += shown(page)
    assert not walk(page, "prev")
    assert set(seen) == dead(stage, sub.id)
    assert set(newest) <= set(seen)
