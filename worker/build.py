"""The only place where real clocks, connections, threads and chance are made."""

from __future__ import annotations

import logging
import random
import secrets
import threading
from datetime import timedelta

from fencepost import __version__
from fencepost.errors import DatabaseUnavailableError
from fencepost.model import Lease
from fencepost.settings import Settings
from fencepost.store.migrate import check_revision
from fencepost.store.registry import Beat, beat
from fencepost.store.session import STATEMENT_LIMIT
from worker import metrics
from worker.attempt import Sender
from worker.attempt_log import AttemptLog
from worker.bell import Bell
from worker.claim import Claim
from worker.clock import elapsed
from worker.dead_groups import CountDead
from worker.discard import DiscardStep
from worker.doze import Doze
from worker.fanout import FanOut
from worker.heartbeat import Heartbeat
from worker.link import Link
from worker.loop import LONGEST_PAUSE, Loop, Step, pause_after
from worker.pace import Pace
from worker.prepare import Preparer
from worker.reaper import Reaper
from worker.replay import ReplayStep
from worker.rollup import RollupStep
from worker.roster import Roster
from worker.settle import Settle
from worker.transport.base import Transport
from worker.transport.choice import make_transport
from worker.turns import Turns
from worker.upkeep import Upkeep

log = logging.getLogger(__name__)

DRAIN_MARGIN = 10.0
"""Seconds beyond the deadline of the last request in which its outcome must be written."""


class Worker:
    """One worker process: its loops, and how they begin and end.

    Args:
        settings: with a database URL.
        name: in front of the random suffix of its worker id; None: the node's.
        transport: what sends the requests; None: what the settings name.

    Raises:
        SettingsError: keys are missing.
    """

    def __init__(
        self, settings: Settings, *, name: str | None = None, transport: Transport | None = None
    ) -> None:
        self._settings = settings
        self.worker_id = f"{name or settings.node_name}-{secrets.token_hex(4)}"
        keyring, endpoint_keyring = settings.keyring(), settings.endpoint_keyring()
        lease = timedelta(seconds=settings.lease_seconds)
        chance = self._chance = random.SystemRandom()
        self._links: list[Link] = []
        self._state = "running"
        self._is_stopping = threading.Event()
        self._patience = settings.deadline_seconds + DRAIN_MARGIN
        self._transport = transport or make_transport(settings)
        self.roster = Roster(
            concurrency=settings.concurrency,
            share=settings.max_in_flight_per_subscription,
            backlog=4 * settings.concurrency,
            clock=elapsed,
        )
        self._pace = Pace(elapsed)
        self._attempt_log = AttemptLog()
        self._settle = Settle(
            self._link("settle"),
            worker_id=self.worker_id,
            roster=self.roster,
            pace=self._pace,
            on_taken=self._attempt_log.write,
            on_settled=self._wake_claim,
            clock=elapsed,
        )
        sender = Sender(
            self._transport,
            roster=self.roster,
            settle=self._settle.put,
            endpoint_keyring=endpoint_keyring,
            keep_responses=settings.keep_responses,
            chance=chance,
            report=self._attempt_log.note,
            on_free=self._wake_claim,
        )
        self._heartbeat = Heartbeat(
            self._link("heartbeat", statement_limit=lease / 3),
            worker_id=self.worker_id,
            lease=lease,
            roster=self.roster,
            abort=self._abort,
            describe=self._describe,
            clock=elapsed,
        )
        self._claim = Claim(
            self._link("claim"),
            worker_id=self.worker_id,
            lease=lease,
            roster=self.roster,
            preparer=Preparer(settings, keyring=keyring, endpoint_keyring=endpoint_keyring),
            sender=sender,
            settle=self._settle.put,
            may_claim=lambda: self.is_well,
            is_stopping=self._is_stopping.is_set,
            patience=self._patience,
            clock=elapsed,
            chance=chance,
        )
        bell = Bell(
            self._link("bell"),
            self._link("ringer"),
            on_ring=self._wake_fan_out,
            clock=elapsed,
        )
        fan_out = FanOut(
            self._link("fanout"),
            keyring=keyring,
            worker_id=self.worker_id,
            on_new=self._wake_claim,
            doze=Doze(bell_works=lambda: bell.works, clock=elapsed),
        )
        self._fan_out_loop = self._loop("fanout", fan_out)
        reaper = Reaper(
            self._link("reaper"),
            worker_id=self.worker_id,
            lease=lease,
            may_reap=lambda: self._heartbeat.is_fresh,
            on_new=self._wake_claim,
        )
        replay = ReplayStep(
            self._link("replay"),
            worker_id=self.worker_id,
            on_new=self._wake_claim,
            clock=elapsed,
        )
        dead_letters = self._link("dead letters")
        rollup = RollupStep(self._link("rollup"), keep=timedelta(days=settings.retention_days))
        upkeep = Upkeep(self._link("upkeep"))
        self._claim_loop = self._loop("claim", self._claim)
        self._settle_loop = self._loop("settle", self._settle)
        self._heartbeat_loop = self._loop("heartbeat", self._heartbeat)
        self._intake = [
            self._claim_loop,
            self._fan_out_loop,
            *([self._loop("bell", bell)] if settings.doorbell else []),
            self._loop("reaper", reaper),
            self._loop("replay", replay),
            self._loop("dead letters", Turns(DiscardStep(dead_letters), CountDead(dead_letters))),
            self._loop("rollup", rollup),
            self._loop("upkeep", upkeep),
        ]

    def run(self, stop: threading.Event) -> int:
        """Work until ``stop`` is set, then finish what is in flight.

        Returns:
            The exit status: 0, or 1 when outcomes were left unwritten because the
            database stayed away; their leases run out and are taken back.

        Raises:
            SchemaError: the database has another schema than this version needs.
        """
        if not self._check_schema(stop):
            return 0
        metrics.IN_FLIGHT.set_function(lambda: self.roster.in_flight)
        if self._settings.worker_bind is not None:
            bind = self._settings.worker_bind
            metrics.serve(bind.host, bind.port, is_healthy=lambda: self.is_well)
        for loop in (self._heartbeat_loop, self._settle_loop, *self._intake):
            loop.start()
        log.info("worker.started worker=%s version=%s", self.worker_id, __version__)
        stop.wait()
        try:
            return self._drain()
        finally:
            for link in self._links:
                link.close()

    @property
    def is_well(self) -> bool:
        """Whether it can keep what it claims, and write what comes of it."""
        return self._heartbeat.is_fresh and self._settle.is_well

    def _check_schema(self, stop: threading.Event) -> bool:
        """Wait for the database, however long it takes; False: told to stop before it came."""
        link, failures = self._link("start"), 0
        while not stop.is_set():
            try:
                with link.use() as conn:
                    check_revision(conn)
            except DatabaseUnavailableError as error:
                if not failures:
                    log.warning("database.away loop=start error=%s", error)
                stop.wait(pause_after(failures := failures + 1, self._chance))
            else:
                link.close()
                return True
        return False

    def _drain(self) -> int:
        """Claim no more, give back what has not left, let what has left end."""
        log.info("worker.draining worker=%s in_flight=%d", self.worker_id, self.roster.in_flight)
        self._state = "draining"
        self._is_stopping.set()
        for loop in self._intake:
            loop.stop()
        for loop in self._intake:
            loop.join(self._patience)
        if not self._claim.is_done:
            finish = self._loop("finish", self._claim.finish)
            finish.start()
            self._claim.is_finished.wait(self._patience)
            finish.stop()
            finish.join(DRAIN_MARGIN)
        self._heartbeat_loop.wake()
        is_empty = self.roster.wait_empty(self._patience)
        self._transport.close(wait=0)
        self._settle_loop.stop()
        self._settle_loop.join(DRAIN_MARGIN)
        self._attempt_log.write()
        self._heartbeat_loop.stop()
        self._heartbeat_loop.join(DRAIN_MARGIN)
        self._state = "stopped"
        if not is_empty:
            log.error("worker.left_work worker=%s", self.worker_id)
            return 1
        try:
            with self._link("stop").use() as conn:
                beat(conn, self._describe())
        except DatabaseUnavailableError:  # nothing is left undone: the registry is for people
            log.warning("database.away loop=stop")
        log.info("worker.stopped worker=%s", self.worker_id)
        return 0

    def _loop(self, name: str, step: Step) -> Loop:
        # After an outage answers and heartbeats must be written before a reaper stops waiting.
        longest = min(LONGEST_PAUSE, self._settings.lease_seconds / 6)
        return Loop(name, step, chance=self._chance, longest_pause=longest)

    def _link(self, name: str, *, statement_limit: timedelta = STATEMENT_LIMIT) -> Link:
        if self._settings.database_url is None:
            raise ValueError("a worker needs a database URL")
        link = Link(
            self._settings.database_url,
            schema=self._settings.schema,
            name=f"fencepost worker {name}",
            statement_limit=statement_limit,
        )
        self._links.append(link)
        return link

    def _describe(self) -> Beat:
        per_minute, p95_ms = self._pace.read()
        return Beat(
            worker_id=self.worker_id,
            node=self._settings.node_name,
            version=__version__,
            transport=self._settings.transport,
            concurrency=self._settings.concurrency,
            in_flight=self.roster.in_flight,
            state=self._state,
            attempts_per_minute=per_minute,
            p95_ms=p95_ms,
        )

    def _wake_fan_out(self) -> None:
        self._fan_out_loop.wake()

    def _wake_claim(self) -> None:
        self._claim_loop.wake()

    def _abort(self, lease: Lease) -> None:
        self._transport.abort(lease)
