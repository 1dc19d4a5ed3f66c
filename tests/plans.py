"""The plans of the real calls, as auto_explain reports them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Connection

_SETTINGS = {
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_format": "json",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_level": "notice",
    "max_parallel_workers_per_gather": "0",
}


class Explained:
    """The plans of everything that runs on a connection."""

    def __init__(self, conn: Connection[Any], subs: list[UUID]) -> None:
        self.conn, self.subs = conn, subs
        self.plans: list[dict[str, Any]] = []
        conn.execute("LOAD 'auto_explain'")
        for name, value in _SETTINGS.items():
            conn.execute("SELECT set_config(%s, %s, false)", (name, value))
        conn.add_notice_handler(self._note)

    def _note(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        _, brace, text = (diagnostic.message_primary or "").partition("{")
        self.plans.append(json.loads(brace + text))

    def nodes(self) -> Iterator[dict[str, Any]]:
        waiting = [plan["Plan"] for plan in self.plans]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", ())

    def whole_tables(self) -> list[str]:
        """Tables that were read from one end to the other, but for those that are empty still."""
        return [
            node["Relation Name"]
            for node in self.nodes()
            if node["Node Type"] == "Seq Scan"
            and node["Relation Name"].startswith(("webhook_deliver", "webhook_events"))
            and node["Shared Hit Blocks"] + node["Shared Read Blocks"] > 0
        ]

    def blocks(self) -> int:
        """Pages of 8 kB that were touched."""
        tops = [plan["Plan"] for plan in self.plans]
        return sum(top["Shared Hit Blocks"] + top["Shared Read Blocks"] for top in tops)
