"""A receiver in FastAPI, with psycopg: ``uvicorn fastapi_receiver:app`` in this folder.

``DATABASE_URL`` names a database with the tables of ``tables.py``, ``WEBHOOK_SECRETS`` the
endpoint's signing secrets, with spaces between.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from fencepost.receiver import Inbox, RefusedError, verify

SECRETS = os.environ["WEBHOOK_SECRETS"].split()

pool = AsyncConnectionPool(os.environ["DATABASE_URL"], open=False)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Keep connections open while the application runs."""
    async with pool:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/webhooks", status_code=204)
async def receive(request: Request) -> None:
    """Act on an event, once."""
    body = await request.body()
    verify(body, request.headers, SECRETS)
    async with pool.connection() as conn:
        if await Inbox(conn).aonce(request.headers):
            await act(conn, json.loads(body))


@app.exception_handler(RefusedError)
async def refuse(_: Request, error: RefusedError) -> PlainTextResponse:
    """Say why; the timeline of the delivery shows it."""
    return PlainTextResponse(str(error), error.status)


async def act(conn: AsyncConnection, event: dict[str, Any]) -> None:
    """Do what the event is about, in the transaction that the inbox is in."""
    if event["type"] == "invoice.paid":
        await conn.execute("INSERT INTO payments VALUES (%(invoice)s, %(amount)s)", event)
