"""The names of CONTRACT section 7: more may be added, none renamed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

from fencepost import objects
from fencepost.model import Delivery, FencedWrite, Subscription, TrailRow
from fencepost.records import Event, Replay, ReplayPart
from fencepost.states import State
from fencepost.timeline import build

AT = datetime(2026, 11, 30, 18, 55, 1, 123457, tzinfo=timezone(timedelta(hours=2)))
ID = UUID("0198c9e4-3c5e-7b3a-9d2f-0a1b2c3d4e5f")

SUBSCRIPTION = Subscription(
    ID, "orders", "https://e.test", "https://e.test/***", ("*",), "standard", None, ("X-A",), 5,
    15.0, 3600.0, None, (), (), None, None, False, "active", None, AT, None,
)  # fmt: skip
DELIVERY = Delivery(
    ID, ID, "a.b", ID, State.LEASED, 3, 0, 5, 0, None, "w-1", 42, AT, None, None, None, None,
    None, None, AT, AT,
)  # fmt: skip


def test_a_moment_is_utc_to_the_microsecond() -> None:
    assert objects.moment(AT) == "2026-11-30T16:55:01.123457Z"
    assert objects.moment(AT.replace(microsecond=0)) == "2026-11-30T16:55:01.000000Z"
    assert objects.moment(None) is None


def test_a_subscription_shows_no_secret_but_once() -> None:
    shown = objects.subscription_json(SUBSCRIPTION)
    names = """id name url event_types signature_scheme signature_header headers max_attempts
        backoff_base_seconds backoff_cap_seconds retry_preset retry_statuses no_retry_statuses
        max_in_flight rate_limit_per_second ordered state paused_reason created_at"""
    assert set(names.split()) <= shown.keys()
    assert "secret" not in shown
    assert shown["headers"] == {"X-A": "••••"}
    assert objects.subscription_json(SUBSCRIPTION, secret="s")["secret"] == "s"
    json.dumps(shown)


def test_a_delivery_shows_numbers_as_numbers() -> None:
    shown = objects.delivery_json(DELIVERY)
    names = """id event_id event_type subscription_id state attempt_count max_attempts
        next_attempt_at worker_id fencing_token lease_expires_at last_status last_error
        created_at updated_at"""
    assert set(names.split()) <= shown.keys()
    assert (shown["state"], shown["fencing_token"]) == ("LEASED", 42)
    json.dumps(shown)


def test_an_event_has_no_list_until_it_is_fanned_out() -> None:
    event = Event(ID, "a.b", "text/plain", 3, None, "n", None, None, None, AT, is_fanned_out=False)
    shown = objects.event_json(event, [])
    assert {"id", "event_type", "published_at", "deliveries"} <= shown.keys()
    assert shown["deliveries"] is None
    done = Event(ID, "a.b", "text/plain", 3, None, "n", None, None, None, AT, is_fanned_out=True)
    assert objects.event_json(done, [])["deliveries"] == []
    assert objects.event_json(done, [DELIVERY])["deliveries"][0]["id"] == str(ID)


def test_a_timeline_shows_rows_segments_and_what_was_fenced() -> None:
    row = TrailRow(1, "RECEIVED", AT, "n", 0, None, None, None, {"node": "n"})
    write = FencedWrite(ID, "w-0", 41, "DELIVERED", AT, None)
    timeline = build([row], delivery=DELIVERY, fenced=[write], now=AT)
    shown = objects.trail_json(timeline)
    row_names = """seq state at worker_id fencing_token http_status_code latency_ms error_message
        detail"""
    assert set(shown["rows"][0]) == set(row_names.split())
    segment_names = "kind start_ms duration_ms worker_id fencing_token attempt outcome"
    assert set(segment_names.split()) <= shown["segments"][0].keys()
    assert shown["fenced"][0]["fencing_token"] == 41
    json.dumps(shown)


def test_a_replay_shows_what_remains() -> None:
    replay = Replay(
        ID, "RUNNING", {"state": ["dlq"]}, False, "why", None, 9, 8, 0, {"removed": 1},
        5, 1, 2, 1, 1, [ID], None, None, "user dana", AT.astimezone(UTC), AT, "user eve", AT, None,
    )  # fmt: skip
    shown = objects.replay_json(replay, [ReplayPart(ID, "shop", 8, 5, is_done=False)])
    names = "id state matched eligible requeued delivered failed skipped remaining"
    assert set(names.split()) <= shown.keys()
    assert (shown["remaining"], shown["in_flight"]) == (2, 1)
    assert shown["subscriptions"] == [{"subscription_id": str(ID), "eligible": 8, "requeued": 5}]
    json.dumps(shown)
