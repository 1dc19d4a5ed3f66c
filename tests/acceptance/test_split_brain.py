"""Two workers believe that they hold one delivery; the command line tells who was right."""

from __future__ import annotations

import json
import re
import signal

from installation import Fencepost
from waiting import eventually

STORY = r"""
delivery  {id}
event     {event} \(invoice\.paid\)
to        orders \(http://127\.0\.0\.1:\d+/hook\)
state     DELIVERED after 2 attempts
received  \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{{3}}Z
why       orders answered 200 on attempt 2, [\d.]+ s after it was taken in\.
next      Nothing more, unless somebody replays it\.
- The lease of {a} \(token 1\) ran out while its request was open; .*
- The receiver may have seen it more than once: no answer to attempt 1 is known, .*

{at} RECEIVED  - Payload taken in by node \S+
{at} ENCRYPTED - Encrypted by its producer \(key id: \S+\)
{at} LEASED    - Worker {a} claimed lease \(2 s\), token=1, waited for a worker
{at} ATTEMPTED - POST http://127\.0\.0\.1:\d+/hook \(attempt 1\)
{at} LEASE_EXPIRED - The lease of worker {a} ran out without an outcome, token=1
{at} RETRIED   - Rescheduled, due at once
{at} LEASED    - Worker {b} claimed lease \(2 s\), token=2, waited for a worker
{at} ATTEMPTED - POST http://127\.0\.0\.1:\d+/hook \(attempt 2\)
{at} DELIVERED - HTTP 200 OK \(latency \d+ ms\)
{at} FENCED_OUT - Worker {a} {late}, stale token=1

[\d.]+ s in all: .*
""".strip()
# Its heartbeat or its answer, whichever came first.
LATE = (
    "(was refused: it would have written DELIVERED|found its lease lost while its request was open)"
)


def test_delivery_show_tells_the_story_of_a_worker_that_was_stopped(fencepost: Fencepost) -> None:
    receiver = fencepost.start_receiver("receiver", "hold,200")
    fencepost.run("subscription", "add", "orders", f"{receiver.url}/hook")
    a = fencepost.start_worker("a", lease_seconds=2)
    event_id = fencepost.run("publish", "invoice.paid", "--data", '{"invoice":1}').split()[-1]
    eventually(lambda: receiver.requests)
    a.send(signal.SIGSTOP)
    fencepost.start_worker("b", lease_seconds=2)
    eventually(fencepost.is_settled, within=60)
    receiver.release()
    a.send(signal.SIGCONT)
    eventually(lambda: fencepost.rows("SELECT FROM webhook_fenced_writes"))

    ((id_,),) = fencepost.rows("SELECT id FROM webhook_deliveries")
    told = fencepost.run("delivery", "show", id_)
    story = STORY.format(
        id=id_,
        event=event_id,
        at=r"\[\d\d:\d\d\.\d{3}\]",
        a="a-[0-9a-f]{8}",
        b="b-[0-9a-f]{8}",
        late=LATE,
    )
    assert re.fullmatch(story, told.strip()), told
    shown = json.loads(fencepost.run("delivery", "show", id_, "--json"))
    assert (shown["state"], shown["attempt_count"], shown["fencing_token"]) == ("DELIVERED", 2, 2)
    (late,) = shown["timeline"]["fenced"]
    assert late["worker_id"].startswith("a-")
    assert late["fencing_token"] == 1
    first, again = receiver.requests
    assert first.header("webhook-id") == again.header("webhook-id") == event_id
    assert (first.header("fencepost-token"), again.header("fencepost-token")) == ("1", "2")
    assert a.is_running
