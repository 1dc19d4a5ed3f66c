"""What happens to the deliveries of a history that is made up: who fails, how often, and why."""

from __future__ import annotations

import random
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import history_figures as count
from copying import bigint, jsonb, moment, row, text
from history_figures import DAY
from history_life import LEASE, Life, OverError
from history_plan import Plan, Replay
from history_subscriptions import Subscription

from fencepost.segments import WaitedFor
from fencepost.states import State

FENCED_COLUMNS: Final = "delivery_id worker_id fencing_token would_write detail noted_at"
_SECOND: Final = 1_000_000
_DEADLINE: Final = 15 * _SECOND
_NODES: Final = 6
_LIFE_OF_A_WORKER: Final = 3 * DAY
_POOL: Final = 4096


class Fates:
    """Lets deliveries live. One for a history: it keeps what replays and fencing came to."""

    def __init__(self, plan: Plan, figures: count.Figures) -> None:
        self._plan: Final = plan
        self._figures: Final = figures
        self._chance: Final = plan.chance
        self._replays: Final = _by_subscription(plan.replays)
        self._waits: Final = _pool(plan.chance, median=0.02, spread=1.1)
        self._flights: Final = _pool(plan.chance, median=0.12, spread=0.8)
        self.requeued: Final[Counter[bytes]] = Counter()
        self.delivered: Final[Counter[bytes]] = Counter()
        self.failed: Final[Counter[bytes]] = Counter()
        self.fenced: Final[list[bytes]] = []

    def live(self, life: Life, to: Subscription) -> None:
        """Let a sealed delivery go its way, as far as the history goes."""
        if to.paused_at is not None and life.at >= to.paused_at:
            return
        try:
            self._spend_budget(life, to, luck=self._chance.random())
            while life.state is State.DLQ and (replay := self._next_replay(life)) is not None:
                life.replay(
                    replay.at + int(self._chance.random() * 60 * _SECOND), actor=replay.actor,
                    reason=replay.reason, replay_id=replay.id, as_text=_as_text(replay.id),
                )  # fmt: skip
                self.requeued[replay.id] += 1
                self._spend_budget(life, to, luck=to.rejected + to.spent + self._chance.random())
                ended = self.delivered if life.dead_at is None else self.failed
                ended[replay.id] += 1
            if life.state is State.DLQ and self._chance.random() < 0.03:  # noqa: PLR2004
                at = life.at + int(self._chance.random() * 5 * DAY)
                life.discard(at, actor="user kim", reason="no longer wanted")
        except OverError:
            pass

    def worker_at(self, at: int, node: int | None = None) -> str:
        """Name a worker process of that time: each is replaced after some days."""
        node = int(self._chance.random() * _NODES) if node is None else node
        period = (at - self._plan.start) // _LIFE_OF_A_WORKER
        return f"worker-{node}-{(period * 2_654_435_761 + node) % 0x1000000:06x}"

    def workers(self) -> list[tuple[str, str, int, bool]]:
        """Give the processes of the last days: name, node, when it began, whether it still runs."""
        last = (self._plan.until - self._plan.start) // _LIFE_OF_A_WORKER
        found = []
        for period in range(max(0, last - 2), last + 1):
            began = self._plan.start + period * _LIFE_OF_A_WORKER
            for node in range(_NODES):
                name = self.worker_at(began, node)
                found.append((name, f"worker-{node}", began, period == last))
        return found

    def _spend_budget(self, life: Life, to: Subscription, *, luck: float) -> None:
        """Attempt until it is delivered or dead: by luck it is refused, fails for good, or once."""
        failures = 0
        if luck < to.rejected + to.spent:
            failures = 0 if luck < to.rejected else to.max_attempts
        elif luck < to.rejected + to.spent + to.retried:
            failures = min(to.max_attempts - 1, 1 + int(self._chance.random() * 2))
        while True:
            self._claim(life)
            if self._chance.random() < 0.0005 and life.used + 1 < to.max_attempts:  # noqa: PLR2004
                self._lose_worker(life, to)
                self._claim(life)
            elif self._chance.random() < 0.0002:  # noqa: PLR2004 - a key was not there yet
                life.release(life.at + 3000, reason="key_unavailable", delay=60 * _SECOND)
                self._claim(life)
            life.attempt(life.at + 1500 + int(self._chance.random() * 5000), url=to.url)
            is_down = to.down_since is not None and life.at >= to.down_since
            if life.used <= failures or is_down:
                self._fail(life, to)
                if life.state is State.DLQ:
                    return
            elif luck < to.rejected:
                error, status, said = to.final
                at = self._answer_at(life, to)
                life.fail(at, error=error, status=status, said=said, reason="not_retryable")
                return
            else:
                life.deliver(self._answer_at(life, to), status=200)
                return

    def _claim(self, life: Life) -> None:
        waited = self._waits[int(self._chance.random() * _POOL)]
        kind = WaitedFor.WORKER
        if waited > _SECOND:
            kind = WaitedFor.SLOT if self._chance.random() < 0.8 else WaitedFor.RATE  # noqa: PLR2004
        at = max(life.due, life.at) + waited
        life.claim(at, worker=self.worker_at(at), waited_for=kind)

    def _fail(self, life: Life, to: Subscription) -> None:
        error, status, said = to.passing
        at = self._answer_at(life, to) if status is not None else life.at + _DEADLINE
        if life.used == to.max_attempts:
            life.fail(at, error=error, status=status, said=said, reason="budget_spent")
            return
        longest = min(to.backoff_cap, to.backoff_base * 2 ** min(life.used - 1, 20))
        delay = int(longest * (0.5 + self._chance.random() / 2) * _SECOND)
        life.fail(at, error=error, status=status, said=said, delay=delay)

    def _lose_worker(self, life: Life, to: Subscription) -> None:
        """Let the holder fall asleep in the middle of a request; half of them wake up, too late."""
        holder, token = life.worker or "", life.token
        life.attempt(life.at + 2000, url=to.url)
        life.expire(life.at + LEASE + 500_000, reaper=self.worker_at(life.at + LEASE))
        if self._chance.random() < 0.5:  # noqa: PLR2004
            noted_at = life.at + int(self._chance.random() * 20 * _SECOND)
            if noted_at <= self._plan.until:
                self._figures.count(life.number, noted_at, count.FENCED)
                self.fenced.append(row(
                    life.field, text(holder), bigint(token), text(State.DELIVERED),
                    jsonb({"status": 200, "latency_ms": 31_000}), moment(noted_at),
                ))  # fmt: skip

    def _answer_at(self, life: Life, to: Subscription) -> int:
        took = int(self._flights[int(self._chance.random() * _POOL)] * to.latency)
        return life.at + min(took, _DEADLINE - 1)

    def _next_replay(self, life: Life) -> Replay | None:
        replays = self._replays.get(life.number, ())
        place = bisect(replays, life.at, key=lambda replay: replay.at)
        if place == len(replays) or life.at < replays[place].reaches_back_to:
            return None
        return replays[place]


def _by_subscription(replays: Sequence[Replay]) -> Mapping[int, Sequence[Replay]]:
    found: dict[int, list[Replay]] = defaultdict(list)
    for replay in replays:
        found[replay.subscription].append(replay)
    return found


def _pool(chance: random.Random, *, median: float, spread: float) -> Sequence[int]:
    """Draw durations in microseconds, once: to choose one of them is cheap."""
    return [int(median * chance.lognormvariate(0, spread) * _SECOND) + 100 for _ in range(_POOL)]


def _as_text(id_: bytes) -> str:
    digits = id_.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
