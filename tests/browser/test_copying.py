"""What is copied is exact, runs in a shell, and holds no secret; text stays text."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from chromium import ELSEWHERE
from receiver import Receiver
from serving import Site
from verifying import VERIFIERS

pytestmark = pytest.mark.check(15)

SECRETS = {
    "standard": "whsec_c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0",
    "stripe": "whsec_of_the_other_two_kinds",
    "prefixed": "whsec_of_the_other_two_kinds",
}
PAYLOAD = (
    b'{"said": "it\'s \\"quoted\\" $(id) `id` ${HOME} \\\\ !!",\n'
    b'  "number": 12345678901234567, "markup": "<img src=x onerror=alert(1)>", "u": "\xc3\xbc"}'
)
HOSTILE = "<img src=x onerror=alert(1)>\"'</script>"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    """An operator's page that may read back what was copied."""
    return new_page(permissions=["clipboard-read", "clipboard-write"])


def copied(page: Page) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


def reveal(page: Page, delivery: UUID) -> None:
    page.goto(f"/deliveries/{delivery}?tab=payload")
    page.get_by_role("button", name="Reveal").click()
    expect(page.locator("#by-hand")).to_contain_text("curl")


@pytest.mark.parametrize("scheme", SECRETS)
def test_a_copied_command_delivers_the_same_bytes(
    site: Site, page: Page, receiver: Receiver, scheme: str
) -> None:
    stage, secret = site.stage, SECRETS[scheme]
    sub = stage.subscription(
        f"by hand, {scheme}", url=f"{receiver.url}/in", signature_scheme=scheme, secret=secret
    )
    (delivery,) = stage.deliveries(sub.id)
    stage.give_payload(delivery, PAYLOAD)
    stage.send(delivery, 503)
    reveal(page, delivery)
    page.get_by_role("button", name="Copy the command").first.click()
    expect(page.locator("#announce")).to_have_text("Copied")
    command = copied(page)
    assert secret not in command
    environ = {"PATH": "/usr/bin:/bin", "WEBHOOK_SECRET": secret, "HOME": "/nowhere"}
    subprocess.run(
        ["bash", "-euc", command], env=environ, check=True, capture_output=True, timeout=30
    )
    (received,) = receiver.requests
    assert received.body == PAYLOAD
    VERIFIERS[scheme](received, secret)
    expect(page.locator("#content")).to_have_text(PAYLOAD.decode(), use_inner_text=False)


def test_a_payload_is_copied_as_it_is(site: Site, page: Page) -> None:
    (delivery,) = site.stage.deliveries(site.stage.subscription("copied").id)
    site.stage.give_payload(delivery, PAYLOAD)
    reveal(page, delivery)
    page.get_by_role("button", name="Copy the payload").click()
    expect(page.locator("#announce")).to_have_text("Copied")
    assert copied(page).encode() == PAYLOAD
    assert '"number": 12345678901234567' in page.locator("#payload").inner_text()


def test_plain_http_has_no_clipboard_and_copies_all_the_same(
    site: Site, page: Page, new_page: Callable[..., Page]
) -> None:
    (delivery,) = site.stage.deliveries(site.stage.subscription().id)
    plain = new_page(base_url=site.url.replace("127.0.0.1", ELSEWHERE))
    plain.goto(f"/deliveries/{delivery}")
    assert plain.evaluate("[isSecureContext, typeof navigator.clipboard]") == [False, "undefined"]
    plain.get_by_role("button", name="Copy the delivery's id").click()
    expect(plain.locator("#announce")).to_have_text("Copied")
    page.goto("/overview")
    page.bring_to_front()
    assert copied(page) == str(delivery)


def test_a_time_carries_all_its_digits(site: Site, page: Page) -> None:
    stage = site.stage
    (delivery,) = stage.deliveries(stage.subscription().id)
    page.goto(f"/deliveries?q={delivery}")
    received = page.get_by_test_id(f"row-{delivery}").locator("time").last
    exact = stage.value(
        "SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS')"
        " FROM webhook_deliveries WHERE id = %s",
        delivery,
    )
    assert (received.get_attribute("title") or "").startswith(exact)
    assert received.get_attribute("datetime") == f"{exact.replace(' ', 'T')}Z"


def test_markup_in_a_name_is_shown_and_does_nothing(site: Site, page: Page) -> None:
    stage = site.stage
    sub = stage.subscription(HOSTILE)
    (waiting,) = stage.deliveries(sub.id)
    (dead,) = stage.dead(sub.id, 1)
    stage.give_payload(waiting, PAYLOAD)
    stage.conn.execute(
        "UPDATE webhook_subscriptions SET state = 'paused', paused_reason = %s,"
        " paused_at = fencepost_now() WHERE id = %s",
        (HOSTILE, sub.id),
    )
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    for path in (
        "/overview", f"/deliveries?sub={sub.id}", f"/deliveries/{waiting}", f"/dlq?sub={sub.id}",
        "/subscriptions", f"/subscriptions/{sub.id}", f"/subscriptions/{sub.id}/confirm/resume",
        f"/deliveries/{dead}/confirm/replay",
    ):  # fmt: skip
        page.goto(path)
        assert page.evaluate("document.images.length") == 0, path
    page.goto(f"/subscriptions/{sub.id}")
    expect(page.locator("main")).to_contain_text(HOSTILE)
    reveal(page, waiting)
    expect(page.locator("#payload")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.evaluate("document.images.length") == 0
    assert dialogs == []
