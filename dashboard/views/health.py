"""Health for load balancers, metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from flask import Blueprint, Response, jsonify
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select

from dashboard.database import connection, errors_as_ours
from dashboard.models import Delivery, db, is_in
from dashboard.roles import public, requires
from dashboard.runtime import runtime
from fencepost.errors import FencepostError
from fencepost.states import State
from fencepost.store.migrate import check_revision

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
@public
def healthz() -> Response:
    """Say that this process answers."""
    return jsonify(status="ok")


@blueprint.get("/readyz")
@public
def readyz() -> tuple[Response, int]:
    """Say whether it can work: the database answers and has the schema that is needed."""
    try:
        with errors_as_ours():
            check_revision(connection())
    except FencepostError as error:
        return jsonify(status="unavailable", reason=str(error)), 503
    return jsonify(status="ok"), 200


@blueprint.get("/metrics")
@requires("viewer")
def metrics() -> Response:
    """Give the numbers of this process and of the queue, in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Numbers())
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


class _Numbers(Collector):
    """Read at every scrape: a gauge that a process keeps is wrong in all others."""

    def collect(self) -> Iterable[Metric]:
        """Give the dead letters, counted on their own index, and this process's streams."""
        dead = select(func.count()).where(is_in(State.DLQ), Delivery.discarded_at.is_(None))
        yield GaugeMetricFamily(
            "fencepost_dead_letters",
            "Deliveries in the DLQ that nobody gave up.",
            value=db.session.scalar(dead) or 0,
        )
        yield GaugeMetricFamily(
            "fencepost_live_streams", "Open streams of this process.", value=runtime().hub.viewers
        )
