"""Procrastinate as a webhook sender; ``others`` runs it."""

from __future__ import annotations

import asyncio
import os
import sys

import procrastinate
import requests

URL = os.environ["RECEIVER_URL"]
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["PEER_DB"]))
session = requests.Session()
session.trust_env = False
session.mount("http://", requests.adapters.HTTPAdapter(pool_connections=4, pool_maxsize=256))


@app.task(retry=5)  # type: ignore[untyped-decorator] # not installed beside us
def send(payload: str) -> None:
    """Send one event; runs in a thread."""
    answer = session.post(
        URL, data=payload.encode(), headers={"Content-Type": "application/json"}, timeout=15
    )
    answer.raise_for_status()


async def main(what: str, count: int, size: int, concurrency: int) -> None:
    """Make the jobs, or work until none is left."""
    async with app.open_async():
        if what == "work":
            await app.run_worker_async(
                wait=False, concurrency=concurrency, listen_notify=False,
                install_signal_handlers=False,
            )  # fmt: skip
            return
        await app.schema_manager.apply_schema_async()
        for start in range(0, count, 500):
            jobs = [{"payload": "x" * size}] * min(500, count - start)
            await send.batch_defer_async(*jobs)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
