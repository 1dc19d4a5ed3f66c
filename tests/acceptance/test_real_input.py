"""Real input through every door, to an endpoint that is well, one that falters, one that is broken.

``TEST_PAYLOADS`` may name a gzipped file of lines ``{"event_type":"…","payload":…}``: every one
of its payloads is then sent along with the hostile and the generated ones.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from rich.console import Console
from rich.table import Table

import samples
from chromium import Watched
from installation import PASSWORD, Fencepost
from programs import ReceiverProgram
from publishing import DOORS, HttpApi
from receiver import Received
from samples import Sample
from verifying import REFUSALS, VERIFIERS
from waiting import eventually

GENERATED = 36
PATIENCE = 300.0
"""Seconds for the whole of a large file; the default payloads take a few."""

FRESH = 15
"""Seconds between an attempt's signature and its arrival, at most: no attempt lasts longer."""

REASON = "the endpoint is mended"
BYSTANDERS = 3
ATTEMPTS = {"well": 1, "faltering": 3, "broken": 1}
"""How often each endpoint is asked before the mending."""


@dataclass(frozen=True)
class Endpoint:
    """A receiver and the subscription that sends to it."""

    name: str
    scheme: str
    receiver: ReceiverProgram
    id: str
    secret: str

    def requests(self) -> list[Received]:
        """Those to its own path."""
        return [got for got in self.receiver.requests if got.target == f"/{self.name}"]


def test_every_byte_arrives_signed_and_what_failed_arrives_after_a_bulk_replay(
    fencepost: Fencepost, browser: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    url = fencepost.start_dashboard()
    api = fencepost.open_api(url)
    fencepost.start_worker("a")
    fencepost.start_worker("b")
    broken = fencepost.start_receiver("broken", "404")
    bystander = subscribe(api, broken, "bystander", "standard", event_types=["by.*"])
    bystanders = [api.call("POST", "/events/by.stander", status=202, data=b"{}")
                  for _ in range(BYSTANDERS)]  # fmt: skip
    endpoints = [
        subscribe(api, fencepost.start_receiver("well", "200"), "well", "standard"),
        subscribe(
            api,
            fencepost.start_receiver("faltering", "503,503,200"),
            "faltering",
            "stripe",
            backoff_base_seconds=0.05,
        ),
        subscribe(api, broken, "broken", "prefixed"),
    ]

    sent = publish_through_every_door(fencepost, api)
    eventually(fencepost.is_settled, within=PATIENCE)
    before = count_states(api, [*endpoints, bystander])
    for endpoint in endpoints:
        check_arrivals(endpoint, sent, attempts=ATTEMPTS[endpoint.name])
        check_signatures(endpoint, endpoint.requests())
    dead = ids_of(api, endpoints[2], "dlq")
    assert len(dead) == len(sent)

    broken.answer("200")
    watched = Watched()
    page = browser.new_page(base_url=url, viewport={"width": 1280, "height": 800})
    watched.watch(page, url)
    fencepost.run("user", "add", "dana", "--role", "operator", "--password-stdin", stdin=PASSWORD)
    log_in(page, "dana")
    replay_all_of(page, endpoints[2], count=len(sent))
    page.context.close()
    assert watched.faults == []
    eventually(fencepost.is_settled, within=PATIENCE)
    after = count_states(api, [*endpoints, bystander])

    count = len(sent)
    seen = {endpoint.name: len(endpoint.requests()) for endpoint in endpoints}
    print_counts(capsys, before, after, events=count, requests=seen)
    assert before == {
        "well": {"DELIVERED": count},
        "faltering": {"DELIVERED": count},
        "broken": {"DLQ": count},
        "bystander": {"DLQ": len(bystanders)},
    }
    assert after == {**before, "broken": {"DELIVERED": count}}
    assert ids_of(api, endpoints[2], "delivered") == dead
    check_arrivals(endpoints[2], sent, attempts=2)
    check_signatures(endpoints[2], endpoints[2].requests()[count:])
    check_trails(fencepost, replayed=dead)


def subscribe(
    api: HttpApi, receiver: ReceiverProgram, name: str, scheme: str, **fields: object
) -> Endpoint:
    body = {"name": name, "url": f"{receiver.url}/{name}", "signature_scheme": scheme, **fields}
    made = api.call("POST", "/subscriptions", status=201, json=body)
    return Endpoint(name, scheme, receiver, made["id"], made["secret"])


def publish_through_every_door(fencepost: Fencepost, api: HttpApi) -> Mapping[str, Sample]:
    payloads = [*samples.HOSTILE, *samples.generate(GENERATED)]
    if file := os.environ.get("TEST_PAYLOADS"):
        payloads += samples.read(Path(file))
    sent: dict[str, Sample] = {}
    for publish in DOORS.values():
        ids = publish(fencepost.place(api), payloads)
        sent |= {str(id_): sample for id_, sample in zip(ids, payloads, strict=True)}
    assert len(sent) == len(payloads) * len(DOORS)
    return sent


def count_states(api: HttpApi, endpoints: Sequence[Endpoint]) -> dict[str, dict[str, int]]:
    """Count deliveries by state, as the API tells it; states of which there are none left out."""
    counts = {}
    for endpoint in endpoints:
        states = api.call("GET", "/stats", params={"sub": endpoint.id})["states"]
        counts[endpoint.name] = {state.upper(): n for state, n in states.items() if n}
    return counts


def ids_of(api: HttpApi, endpoint: Endpoint, state: str) -> set[str]:
    rows = api.pages("/deliveries", sub=endpoint.id, state=state, limit=100)
    assert {row["subscription_id"] for row in rows} <= {endpoint.id}
    ids = {row["id"] for row in rows}
    assert len(ids) == len(rows)
    return ids


def check_arrivals(endpoint: Endpoint, sent: Mapping[str, Sample], *, attempts: int) -> None:
    """Each event arrived so many times, the same bytes each time, under numbers that rise."""
    arrived: defaultdict[str, list[Received]] = defaultdict(list)
    for got in endpoint.requests():
        arrived[got.header("webhook-id")].append(got)
    assert arrived.keys() == sent.keys()
    deliveries = set()
    for event_id, sample in sent.items():
        tries = arrived[event_id]
        assert {hashlib.sha256(got.body).hexdigest() for got in tries} == {sample.sha256}
        assert {got.header("Content-Type") for got in tries} == {sample.content_type}
        assert {got.header("Fencepost-Event-Type") for got in tries} == {sample.event_type}
        numbers = [int(got.header("Fencepost-Attempt")) for got in tries]
        assert numbers == list(range(1, attempts + 1))
        tokens = [int(got.header("Fencepost-Token")) for got in tries]
        assert tokens == sorted(set(tokens))
        (delivery,) = {got.header("Fencepost-Delivery") for got in tries}
        deliveries.add(delivery)
    assert len(deliveries) == len(sent)


def check_signatures(endpoint: Endpoint, requests: Sequence[Received]) -> None:
    verify = VERIFIERS[endpoint.scheme]
    for got in requests:
        verify(got, endpoint.secret)
        assert abs(int(got.header("webhook-timestamp")) - got.at) < FRESH
    with pytest.raises(REFUSALS):
        verify(requests[0], "whsec_" + "A" * 43 + "=")


def log_in(page: Page, name: str) -> None:
    page.goto("/dlq")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/dlq")


def replay_all_of(page: Page, endpoint: Endpoint, *, count: int) -> None:
    """Filter the DLQ, see how many match, say why, confirm, and watch it to its end."""
    shown = f"{count:,}"
    expect(page.get_by_test_id("replay-all")).to_contain_text(f"all {count + BYSTANDERS:,} that")
    page.get_by_role("combobox", name="Subscription").select_option(endpoint.name)
    expect(page.get_by_test_id("replay-all")).to_contain_text(f"all {shown} that match")
    assert f"sub={endpoint.id}" in page.url
    page.get_by_test_id("replay-all").click()
    draft = page.get_by_test_id("replay-draft")
    expect(draft.get_by_test_id("replay-count")).to_have_text(shown)
    expect(draft.get_by_test_id("replay-eligible")).to_have_text(shown)
    draft.get_by_label("Reason").fill(REASON)
    draft.get_by_label(re.compile("to confirm")).fill(str(count))
    draft.get_by_test_id("replay-start").click()
    page.wait_for_url("**/replays/*")
    # Nothing is reloaded from here on: the page follows by itself.
    expect(page.get_by_test_id("replay-state")).to_have_text("done")
    delivered = page.get_by_test_id("replay-delivered")
    expect(delivered).to_have_text(shown, timeout=PATIENCE * 1000)
    expect(page.get_by_test_id("replay-requeued")).to_have_text(shown)
    expect(page.get_by_test_id("replay-failed")).to_have_text("0")
    expect(page.get_by_test_id("replay-remaining")).to_have_text("0")


def check_trails(fencepost: Fencepost, *, replayed: set[str]) -> None:
    """Gapless from 1, the last row is the state; each replay names its operator and reason."""
    faulty = fencepost.rows(
        """
        SELECT d.id FROM webhook_deliveries d
          LEFT JOIN webhook_delivery_attempts a ON a.delivery_id = d.id
         GROUP BY d.id
        HAVING array_agg(a.seq ORDER BY a.seq)
               IS DISTINCT FROM (SELECT array_agg(n) FROM generate_series(1, d.seq) AS n)
            OR (array_agg(a.state ORDER BY a.seq DESC))[1] IS DISTINCT FROM d.current_state
        """
    )
    assert faulty == []
    told = fencepost.rows(
        "SELECT delivery_id, detail ->> 'operator', detail ->> 'reason'"
        "  FROM webhook_delivery_attempts WHERE state = 'REPLAYED'"
    )
    assert {str(id_) for id_, _, _ in told} == replayed
    assert Counter((who, why) for _, who, why in told) == {("user dana", REASON): len(replayed)}


def print_counts(
    capsys: pytest.CaptureFixture[str],
    before: Mapping[str, Mapping[str, int]],
    after: Mapping[str, Mapping[str, int]],
    *,
    events: int,
    requests: Mapping[str, int],
) -> None:
    table = Table("subscription", "before", "after the replay", "requests seen", box=None)
    for name, states in before.items():
        cells = [", ".join(f"{state} {n}" for state, n in each.items())
                 for each in (states, after[name])]  # fmt: skip
        table.add_row(name, *cells, str(requests.get(name, "")))
    with capsys.disabled():
        console = Console(width=100)
        console.print(f"\n{events:,} events, through {', '.join(DOORS)}:")
        console.print(table)
