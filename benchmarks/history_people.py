"""Who did what in a history that is made up: workers, bulk replays and the log of operators."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from copying import bigint, copy, jsonb, moment, row, text
from history_fate import Fates
from history_plan import Plan
from psycopg import Connection

from fencepost import __version__
from fencepost.ids import uuid7

_ACTIONS: Final = (
    "delivery.replay", "payload.reveal", "subscription.test", "subscription.update", "replay.draft",
)  # fmt: skip
_ACTORS: Final = ("user dana", "user kim", "user noor", "token ci", "token backoffice")


def write_people(conn: Connection[Any], plan: Plan, fates: Fates) -> None:
    """Write all of them; replays say what became of the deliveries that they touched."""
    _write_workers(conn, plan, fates)
    _write_replays(conn, plan, fates)
    _write_discards(conn, plan, fates)
    columns = "actor action target params affected outcome request_id created_at"
    copy(conn, "webhook_operator_actions", columns, _actions(plan))


def _write_workers(conn: Connection[Any], plan: Plan, fates: Fates) -> None:
    with conn.cursor() as cur:
        cur.executemany(
            "INSERT INTO webhook_workers (worker_id, node, version, transport, concurrency, state,"
            " started_at, beat_at)"
            " VALUES (%s, %s, %s, 'curl', 1000, %s, to_timestamp(%s), to_timestamp(%s))",
            [
                (name, node, __version__, "running" if runs else "stopped", began / 1e6,
                 (plan.until if runs else began + 3 * 86_400_000_000) / 1e6)
                for name, node, began, runs in fates.workers()
            ],
        )  # fmt: skip


def _write_replays(conn: Connection[Any], plan: Plan, fates: Fates) -> None:
    """Each met all that it had counted: nobody else moved them in between."""
    rows, parts = [], []
    for replay in plan.replays:
        count = fates.requeued[replay.id]
        of = UUID(bytes=plan.all[replay.subscription].id)
        scope = {"sub": [str(of)], "state": ["dlq"]}
        at = replay.at / 1e6
        rows.append((
            UUID(bytes=replay.id), json.dumps(scope), replay.reason, count, count, count,
            fates.delivered[replay.id], fates.failed[replay.id],
            replay.actor, at - 60, at + 840, replay.actor, at, at + 61,
        ))  # fmt: skip
        parts.append((UUID(bytes=replay.id), of, count, count))
    with conn.cursor() as cur:
        cur.executemany(
            "INSERT INTO webhook_replays (id, state, filter, snapshot, reason, matched, eligible,"
            " requeued, delivered, failed, created_by, created_at, expires_at, started_by,"
            " started_at, finished_at)"
            " VALUES (%s, 'DONE', %s, pg_current_snapshot(), %s, %s, %s, %s, %s, %s, %s,"
            " to_timestamp(%s), to_timestamp(%s), %s, to_timestamp(%s), to_timestamp(%s))",
            rows,
        )
        cur.executemany(
            "INSERT INTO webhook_replay_parts (replay_id, subscription_id, eligible, requeued,"
            " next_batch_at) VALUES (%s, %s, %s, %s, NULL)",
            parts,
        )


def _write_discards(conn: Connection[Any], plan: Plan, fates: Fates) -> None:
    """Let each replay be what somebody decided on instead: its dead letters were to be given up."""
    with conn.cursor() as cur:
        cur.executemany(
            "INSERT INTO webhook_discards (id, state, filter, snapshot, reason, matched, eligible,"
            " created_by, created_at, expires_at, started_by, started_at, finished_at)"
            " SELECT %s, 'CANCELLED', r.filter, r.snapshot, 'nobody needs them', %s, %s, %s,"
            " at, at + interval '15 min', %s, at + interval '1 min', at + interval '1 min'"
            " FROM webhook_replays r, LATERAL (SELECT r.created_at - interval '1 hour') AS a (at)"
            " WHERE r.id = %s",
            [
                (uuid7(replay.at // 1000, plan.chance.randbytes(10)),
                 *[fates.requeued[replay.id]] * 2, *[replay.actor] * 2, UUID(bytes=replay.id))
                for replay in plan.replays
            ],
        )  # fmt: skip


def _actions(plan: Plan) -> Iterator[bytes]:
    """Log what people do every day; and what they did to the deliveries is in the trails."""
    chance = plan.chance
    times = sorted(
        plan.start + int(chance.random() * (plan.until - plan.start))
        for _ in range(max(50, plan.deliveries // 500))
    )
    for at in times:
        action = chance.choice(_ACTIONS)
        is_known = action.startswith("subscription")
        target = UUID(bytes=chance.choice(plan.all).id if is_known else chance.randbytes(16))
        outcome = chance.choices(("done", "denied", "refused"), (95, 2, 3))[0]
        yield row(
            text(chance.choice(_ACTORS)), text(action), text(str(target)),
            jsonb({"reason": "asked for"}), bigint(1 if outcome == "done" else 0), text(outcome),
            text(f"{chance.getrandbits(64):016x}"), moment(at),
        )  # fmt: skip
