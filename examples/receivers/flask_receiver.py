"""A receiver in Flask, with SQLAlchemy: ``gunicorn flask_receiver:app`` in this folder.

``DATABASE_URL`` names a database with the tables of ``tables.py``, ``WEBHOOK_SECRETS`` the
endpoint's signing secrets, with spaces between.
"""

import json
import os
from typing import Any

from flask import Flask, request
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.orm import Session

from fencepost.receiver import Inbox, RefusedError, verify

SECRETS = os.environ["WEBHOOK_SECRETS"].split()

engine = create_engine(
    make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+psycopg"), pool_pre_ping=True
)
app = Flask(__name__)
app.config["MAX_CONTENT_LENGTH"] = 1 << 20


@app.post("/webhooks")
def receive() -> tuple[str, int]:
    """Act on an event, once."""
    body = request.get_data()
    verify(body, request.headers, SECRETS)
    with Session(engine) as session, session.begin():
        if Inbox(session).once(request.headers):
            act(session, json.loads(body))
    return "", 204


@app.errorhandler(RefusedError)
def refuse(error: RefusedError) -> tuple[str, int]:
    """Say why; the timeline of the delivery shows it."""
    return str(error), error.status


def act(session: Session, event: dict[str, Any]) -> None:
    """Do what the event is about, in the transaction that the inbox is in."""
    if event["type"] == "invoice.paid":
        session.execute(text("INSERT INTO payments VALUES (:invoice, :amount)"), event)
