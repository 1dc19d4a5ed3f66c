"""Celery as a webhook sender: one task, one request; ``others`` runs it."""

from __future__ import annotations

import os
import sys
from typing import Any

import requests
from celery import Celery

URL = os.environ.get("RECEIVER_URL", "")
app = Celery("celery_app", broker=os.environ.get("BROKER_URL", ""))
app.conf.update(
    task_ignore_result=True,
    task_store_errors_even_if_ignored=False,
    worker_prefetch_multiplier=int(os.environ.get("PREFETCH", "16")),
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
)
# ``requests.post``, as everybody writes it; or a session that is kept, which few do.
sender: Any = requests
if os.environ.get("KEEP_SESSION") == "1":
    sender = requests.Session()
    sender.trust_env = False
    sender.mount("http://", requests.adapters.HTTPAdapter(pool_connections=4, pool_maxsize=256))


@app.task(  # type: ignore[untyped-decorator] # Celery has no types
    autoretry_for=(requests.RequestException,), retry_backoff=15, max_retries=4
)
def send(payload: str) -> None:
    """Send one event."""
    answer = sender.post(
        URL, data=payload.encode(), headers={"Content-Type": "application/json"}, timeout=15
    )
    answer.raise_for_status()


if __name__ == "__main__":
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(int(sys.argv[1])):
            send.apply_async(("x" * int(sys.argv[2]),), producer=producer)
