"""The database's own guards on deliveries and trail, generated from the table of legal moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fencepost.states import FINISHED, HELD, INITIAL, WAITING, Fact, State, legal_moves


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in sorted(words))


def moves_in_sql() -> list[str]:
    """Write every legal pair as ``FROM>TO+ROWS``, the form that the trigger compares."""
    return sorted(f"{origin}>{to}+{rows}" for (origin, to), rows in legal_moves().items())


def statements() -> Iterator[str]:
    """Give the DDL that puts the guards in place, replacing older ones.

    A change of ``states.TRANSITIONS`` needs a new migration that runs these again; a
    test reads the guards back from the catalog and compares them with the table.

    Locks: ACCESS EXCLUSIVE on both tables, for the length of a catalog change; the
    CHECKs are validated, which reads the table: a later revision adds them NOT VALID first.
    """
    held, unfinished = _listed(HELD), _listed(WAITING | HELD)
    deliveries = "ALTER TABLE webhook_deliveries"
    checks = {
        "state_known": f"current_state IN ({_listed(State)})",
        # A lease exists exactly while a worker holds the delivery.
        "held_has_lease": f"(current_state IN ({held})) = (worker_id IS NOT NULL)"
        " AND (worker_id IS NULL) = (lease_expires_at IS NULL)",
        # So the indexes need not name the state: waiting is what is due and in nobody's hands.
        "unfinished_has_due": f"(current_state IN ({unfinished})) = (next_attempt_at IS NOT NULL)",
        "dead_says_why": "(current_state = 'DLQ') = (dead_at IS NOT NULL)"
        " AND (dead_at IS NULL) = (dead_reason IS NULL)",
    }
    for name, condition in checks.items():
        yield f"{deliveries} DROP CONSTRAINT IF EXISTS {name}"
        yield f"{deliveries} ADD CONSTRAINT {name} CHECK ({condition})"
    yield "ALTER TABLE webhook_delivery_attempts DROP CONSTRAINT IF EXISTS trail_state_known"
    yield (
        "ALTER TABLE webhook_delivery_attempts ADD CONSTRAINT trail_state_known"
        f" CHECK (state IN ({_listed([*State, *Fact])}))"
    )

    # The legality lives in WHEN clauses: the function is called only to raise.
    yield from _trigger(
        "webhook_deliveries_legal_move",
        "BEFORE UPDATE",
        # A pair of states that the table has, with exactly the trail rows that it writes;
        # or the same state and no trail row: a heartbeat.
        "(OLD.current_state || '>' || NEW.current_state || '+' || (NEW.seq - OLD.seq)"
        f" <> ALL (ARRAY[{_listed(moves_in_sql())}])"
        " AND NOT (NEW.current_state = OLD.current_state AND NEW.seq = OLD.seq))"
        # The token rises by one at each claim and never else; the count at each attempt.
        " OR NEW.fencing_token <> OLD.fencing_token + (CASE WHEN NEW.current_state = 'LEASED'"
        " AND OLD.current_state <> 'LEASED' THEN 1 ELSE 0 END)"
        " OR NEW.attempt_count <> OLD.attempt_count + (CASE WHEN NEW.current_state = 'ATTEMPTED'"
        " AND OLD.current_state <> 'ATTEMPTED' THEN 1 ELSE 0 END)"
        " OR NEW.budget_start < OLD.budget_start"
        # A lease passes from one worker to another only by way of a claim.
        " OR (OLD.worker_id IS NOT NULL AND NEW.worker_id IS NOT NULL"
        " AND NEW.worker_id <> OLD.worker_id)"
        " OR (NEW.id, NEW.event_id, NEW.subscription_id, NEW.event_type, NEW.created_at)"
        " IS DISTINCT FROM"
        " (OLD.id, OLD.event_id, OLD.subscription_id, OLD.event_type, OLD.created_at)",
    )
    yield from _trigger(
        "webhook_deliveries_legal_start",
        "BEFORE INSERT",
        f"NEW.current_state NOT IN ({_listed(INITIAL)}) OR NEW.attempt_count <> 0"
        " OR NEW.fencing_token <> 0 OR NEW.budget_start <> 0 OR NEW.expiries <> 0"
        f" OR NEW.seq <> (CASE NEW.current_state WHEN '{State.RECEIVED}' THEN 1 ELSE 2 END)",
    )
    yield from _trigger(
        "webhook_deliveries_legal_end",
        "BEFORE DELETE",
        f"OLD.current_state NOT IN ({_listed(FINISHED)})",
    )


def _trigger(name: str, event: str, condition: str) -> Iterator[str]:
    """ALWAYS, so that a replication role does not switch it off."""
    yield (
        f"CREATE OR REPLACE TRIGGER {name} {event} ON webhook_deliveries FOR EACH ROW"
        f" WHEN ({condition}) EXECUTE FUNCTION webhook_refuse_move()"
    )
    yield f"ALTER TABLE webhook_deliveries ENABLE ALWAYS TRIGGER {name}"
