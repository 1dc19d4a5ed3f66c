"""How long every page, every region and every list of the API takes, on a year of history.

``python benchmarks/pages.py [--full]`` makes up a history of its own; ``--here`` takes the one in
the database of the settings, made with ``history.py``.
"""

from __future__ import annotations

import argparse
import http.client
import os
import time
from collections.abc import Mapping
from typing import Any, Final

from flask import Flask
from history import continue_clock, make_history
from history_plan import Plan as HistoryPlan
from pages_addresses import Address, addresses, regions_of
from pages_plans import listening, plan_of
from pages_samples import read_samples
from pages_site import TIMES, Headers, Site, Timed, dashboard, headers_for
from psycopg import Connection
from runs import Size, tell
from section import Goal, Section, as_markdown

from dashboard import create_app
from fencepost.bench.database import own_database
from fencepost.bench.plan import Plan
from fencepost.settings import Settings
from fencepost.store import logins, people, tokens
from fencepost.store.pool import connect

_TARGET_MS: Final = 150
_PLANS: Final = 3


def measure(size: Size) -> Section:
    """Make up a history, and look at all of it."""
    with own_database(Plan(), say=tell) as db:
        count = size.pick(100_000, 10_000_000)
        with db.connect("owner") as conn:
            plan = HistoryPlan(deliveries=count, until=time.time_ns() // 1000)
            make_history(conn, plan, db.settings, show=lambda done: tell(f"{done:,} deliveries"))
        return look(db.settings, db.environ)


def look(settings: Settings, environ: Mapping[str, str], *, only: str = "") -> Section:
    """Measure on the history that is there: all routes, or those that have a text in them."""
    url = settings.database_url or ""
    app = create_app(settings)
    with (
        connect(url, role="owner", schema=settings.schema, name="fencepost pages") as owner,
        dashboard(environ) as site,
    ):
        owner.execute("SET statement_timeout = 0")
        continue_clock(owner)
        headers = _log_in(owner)
        found = _look_at_all(
            app,
            site,
            headers,
            [
                each
                for each in addresses(app, read_samples(owner), settings.secret())
                if only in each.rule
            ],
        )
        slowest = sorted(found, key=lambda timed: timed.p95)[-_PLANS:][::-1]
        plans = [_explain(app, url, settings.schema, timed, headers) for timed in slowest]
        counts = _counts(owner)
    return Section(
        title="Pages at size",
        goals=[Goal.at_most("p95 of the slowest page or region", slowest[0].p95, _TARGET_MS, "ms")],
        method=f"On {counts}. Each address {TIMES} times, one after another, through gunicorn.\n\n"
        + "\n\n".join(plans),
        command="python benchmarks/pages.py [--full]",
        columns=("route", "asked", "p50 ms", "p95 ms", "longest ms", "kB"),
        rows=[timed.cells() for timed in found],
    )


def _look_at_all(app: Flask, site: Site, headers: Headers, waiting: list[Address]) -> list[Timed]:
    found: list[Timed] = []
    seen: set[tuple[str, str]] = set()
    while waiting:
        address = waiting.pop(0)
        if (address.rule, address.what) in seen:
            continue
        seen.add((address.rule, address.what))
        timed, body = site.time(address, headers)
        if timed.status == http.client.UNPROCESSABLE_ENTITY:
            continue  # it does not know this question
        tell(f"{timed.p95:8.0f} ms  {address.rule}  {address.what}")
        found.append(timed)
        if not address.rule.startswith(("/api", "/_f")):
            waiting += [
                each
                for each in regions_of(app, address.rule, body, address.what)
                if "the next one" not in address.what or not each.what.endswith("the next one")
            ]
    return found


def _log_in(owner: Connection[Any]) -> Headers:
    """Make an admin for the pages and a token for the API, and give the headers of both."""
    name = f"bench-{time.time_ns()}"
    with owner.transaction():
        user = people.add_user(owner, name, password_hash="", role="admin", actor="bench")
        session = logins.open_session(owner, user.id)
        token = tokens.create_token(owner, name, role="admin", actor="bench")[1]
    return {
        "": {"Cookie": f"fencepost_session={session}"},
        "/api": {"Authorization": f"Bearer {token}"},
    }


def _explain(app: Flask, url: str, schema: str, timed: Timed, headers: Headers) -> str:
    """Ask for an address once more in this process; give the plan of what took longest."""
    with listening(app) as heard:
        app.test_client(use_cookies=False).get(
            timed.address.urls[0], headers=headers_for(headers, timed.address.urls[0])
        )
    longest = max(heard, key=lambda asked: asked.ms)
    with connect(url, role="dashboard", schema=schema, name="fencepost pages") as conn:
        conn.execute("SET statement_timeout = 0")
        plan = plan_of(conn, longest)
    head = (
        f"`{timed.address.urls[0]}` asks {len(heard)} statements; the longest, {longest.ms:.0f} ms:"
    )
    return f"{head}\n\n```\n{plan}\n```"


def _counts(owner: Connection[Any]) -> str:
    counts = [
        (owner.execute(query).fetchone() or (0,))[0]
        for query in (
            "SELECT count(*) FROM webhook_deliveries",
            "SELECT count(*) FROM webhook_delivery_attempts",
            "SELECT count(*) FROM webhook_deliveries WHERE dead_at IS NOT NULL",
            "SELECT count(*) FROM webhook_subscriptions",
        )
    ]
    return "{:,} deliveries, {:,} rows of trails, {:,} dead letters, {:,} subscriptions".format(
        *counts
    )


def main() -> None:
    """Run alone, and print the chapter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="ten million deliveries")
    parser.add_argument("--only", default="", help="routes that have this text in them")
    parser.add_argument("--here", action="store_true", help="on the database of the settings")
    chosen = parser.parse_args()
    if chosen.here:
        settings = Settings.load(require=("database_url", "keys", "endpoint_keys", "secret_key"))
        print(as_markdown(look(settings, os.environ, only=chosen.only)))
    else:
        print(as_markdown(measure(Size(chosen.full))))


if __name__ == "__main__":
    main()
