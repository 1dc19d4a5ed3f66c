"""What a worker counts, and the door at which it tells: ``/metrics`` and ``/healthz``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import Counter, Gauge, make_wsgi_app

from fencepost.errors import SettingsError

SETTLED = Counter("fencepost_settled", "Leases whose end was written.")
FENCED_OUT = Counter("fencepost_fenced_out", "Writes that fencing refused.")
LEASES_LOST = Counter("fencepost_leases_lost", "Leases found lost while their request was open.")
EXPIRED = Counter("fencepost_leases_expired", "Expired leases that this worker took back.")
IN_FLIGHT = Gauge("fencepost_in_flight", "Slots in use.")


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing: scrapes are not news."""


def serve(host: str, port: int, *, is_healthy: Callable[[], bool]) -> WSGIServer:
    """Answer in a thread of its own, until the process ends.

    Args:
        host: to listen on.
        port: to listen on; 0 picks one.
        is_healthy: whether leases are kept and outcomes written.

    Raises:
        SettingsError: the address is taken, or not of this machine.
    """
    metrics = make_wsgi_app()

    def app(environ: dict[str, str], start_response: Callable[..., object]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == "/metrics":
            found: Iterable[bytes] = metrics(environ, start_response)
            return found
        if environ.get("PATH_INFO") == "/healthz":
            healthy = is_healthy()
            status = "200 OK" if healthy else "503 Service Unavailable"
            start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
            return [b"ok\n" if healthy else b"heartbeats are late, or outcomes cannot be written\n"]
        start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"not found\n"]

    try:
        server = make_server(host, port, app, handler_class=_Quiet)
    except OSError as error:
        raise SettingsError(
            f"FENCEPOST_WORKER_BIND: {host}:{port}: {error.strerror}; each worker needs its own"
        ) from error
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
