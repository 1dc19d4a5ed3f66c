"""A site on which things really happen: a worker beside it, and a receiver that it sends to."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from playwright.sync_api import Page, expect

from fencepost.model import Subscription
from receiver import Receiver
from serving import Site
from waiting import eventually

NOISE = ("ERR_", "Failed to load", "Failed to fetch", "status 50", "warning")
"""What a browser says of a server that is not there."""


@dataclass(frozen=True)
class Lively:
    """The dashboard, its worker's receiver, and how to make something happen."""

    site: Site
    receiver: Receiver

    def subscribe(self, name: str, **fields: object) -> Subscription:
        """Add a subscription to ``<name>.happened`` whose endpoint is the receiver."""
        return self.site.stage.subscription(
            name, url=f"{self.receiver.url}/{name}", event_types=[f"{name}.happened"], **fields
        )

    def publish(self, name: str, count: int) -> None:
        """Publish so many events, each in a transaction of its own."""
        for _ in range(count):
            self.site.stage.conn.execute(
                "SELECT webhook_publish(%s, '{}'::text::bytea)", (f"{name}.happened",)
            )

    def wait(self, sub: UUID, state: str, count: int) -> None:
        """Wait until the worker has brought so many deliveries into that state."""
        eventually(
            lambda: (
                self.site.stage.value(
                    "SELECT count(*) FROM webhook_deliveries"
                    " WHERE subscription_id = %s AND current_state = %s",
                    sub,
                    state,
                )
                == count
            )
        )

    def wait_for(self, delivery: UUID, state: str) -> None:
        """Wait until the worker has brought one delivery into that state."""
        query = "SELECT current_state FROM webhook_deliveries WHERE id = %s"
        eventually(lambda: self.site.stage.value(query, delivery) == state)

    def ids(self, sub: UUID) -> list[UUID]:
        """List a subscription's deliveries, oldest first."""
        query = "SELECT id FROM webhook_deliveries WHERE subscription_id = %s ORDER BY id"
        return [row[0] for row in self.site.stage.conn.execute(query, (sub,))]


def is_live(page: Page) -> None:
    """Wait until the page's stream is open."""
    expect(page.locator("#live-pill")).to_have_text("live", timeout=40_000)


def watch(page: Page, path: str, region: str = "/_f/") -> None:
    """Open a page, and wait until its stream is open and its first refresh is over."""
    with page.expect_response(lambda answer: region in answer.url and "/nav" not in answer.url):
        page.goto(path)
    is_live(page)


def is_calm(page: Page) -> None:
    """Wait until nothing is being asked for."""
    eventually(lambda: page.evaluate("!document.querySelector('.htmx-request')"))
