"""What a worker tells of itself at its own address."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from fencepost.errors import SettingsError
from waiting import eventually
from worker.build import Worker


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - http, from the test
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except urllib.error.URLError:
        return 0, ""


def test_metrics_and_health_are_served(db_url: str, settings: Any) -> None:
    at = f"127.0.0.1:{free_port()}"
    worker, stop = Worker(settings(db_url, worker_bind=at)), threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    try:
        eventually(lambda: get(f"http://{at}/healthz") == (200, "ok\n"))
        status, text = get(f"http://{at}/metrics")
        assert status == 200
        for name in (
            "fencepost_settled_total",
            "fencepost_fenced_out_total",
            "fencepost_leases_lost_total",
            "fencepost_leases_expired_total",
            "fencepost_in_flight",
        ):
            assert f"\n{name} " in text
        assert get(f"http://{at}/else")[0] == 404
    finally:
        stop.set()
        thread.join(60)


def test_a_taken_address_is_a_fault_of_the_settings(db_url: str, settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        worker = Worker(settings(db_url, worker_bind=at))
        with pytest.raises(SettingsError, match="FENCEPOST_WORKER_BIND"):
            worker.run(threading.Event())
