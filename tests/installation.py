"""Fencepost as its users have it: programs on a database, and receivers, all real."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import Connection

from programs import Program, ReceiverProgram
from publishing import HttpApi, Place, open_api
from serving import free_port, start, stop

PASSWORD = "correct horse battery staple"


@dataclass(frozen=True)
class Fencepost:
    """One installation: what is started here ends with the test."""

    environ: Mapping[str, str]
    folder: Path
    db: Connection[Any]
    """As superuser, in autocommit: for looking."""
    stack: ExitStack

    def run(self, *arguments: object, stdin: str = "") -> str:
        """Run ``fencepost …`` as a program, which must succeed; give what it printed."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "fencepost", *map(str, arguments)],
            env=dict(self.environ),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, (arguments, done.returncode, done.stderr)
        return done.stdout

    def start_worker(self, name: str, **settings: object) -> Program:
        chosen = {f"FENCEPOST_{key.upper()}": str(value) for key, value in settings.items()}
        log = self.folder / f"{name}.log"
        return self.stack.enter_context(Program({**self.environ, **chosen}, log, name=name))

    def start_dashboard(self) -> str:
        """Give its URL; it answers already."""
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        environ = {**self.environ, "FENCEPOST_BIND": f"127.0.0.1:{port}"}
        self.stack.callback(stop, start(environ, self.folder / "dashboard.log", url))
        return url

    def start_receiver(self, name: str, script: str) -> ReceiverProgram:
        receiver = ReceiverProgram(self.environ, self.folder, name=name, script=script)
        return self.stack.enter_context(receiver)

    def open_api(self, url: str, role: str = "admin") -> HttpApi:
        """Make a token and use it."""
        token = json.loads(self.run("token", "create", f"the {role}", "--role", role, "--json"))
        api = open_api(url, token["token"])
        self.stack.callback(api.session.close)
        return api

    def place(self, api: HttpApi) -> Place:
        return Place(self.environ, api)

    def rows(self, query: str, *params: object) -> list[tuple[Any, ...]]:
        return self.db.execute(query.encode(), params).fetchall()

    def is_settled(self) -> bool:
        """Tell whether there is nothing left to do: all fanned out, and every delivery finished."""
        ((found,),) = self.rows(
            "SELECT NOT EXISTS (SELECT FROM webhook_outbox) AND NOT EXISTS"
            " (SELECT FROM webhook_deliveries WHERE current_state NOT IN ('DELIVERED', 'DLQ'))"
        )
        return bool(found)
