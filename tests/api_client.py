"""A program that uses the API, and insists that no answer is a 500."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

Role = Literal["viewer", "operator", "admin"]
BASE = "/api/v1"


@dataclass(frozen=True, slots=True)
class Api:
    """A client with a token of each role; answers are JSON, and never a 500."""

    client: FlaskClient
    tokens: Mapping[Role, str]

    def call(
        self,
        method: str,
        path: str,
        *,
        role: Role | None = "admin",
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> TestResponse:
        """Send a request; with ``status``, insist on it."""
        given = dict(headers or {})
        if role is not None:
            given.setdefault("Authorization", f"Bearer {self.tokens[role]}")
        response = self.client.open(BASE + path, method=method, headers=given, **options)
        assert response.status_code < 500 or response.status_code == 503, response.text
        if status is not None:
            assert response.status_code == status, response.text
        if response.status_code >= 400:
            assert response.content_type == "application/problem+json"
        return response

    def get(self, path: str, **options: Any) -> Any:
        """Read; give the document."""
        return self.call("GET", path, **{"status": 200, **options}).json

    def post(self, path: str, **options: Any) -> Any:
        """Act; give the document."""
        return self.call("POST", path, **{"status": 200, **options}).json

    def publish(self, event_type: str, body: bytes, **options: Any) -> Any:
        """Publish one event; give the answer's document."""
        options = {"status": 202, "content_type": "application/json", **options}
        return self.post(f"/events/{event_type}", data=body, **options)

    def subscribe(self, **fields: Any) -> Any:
        """Add a subscription to an endpoint that nobody listens at; give the document."""
        fields = {"name": "orders", "url": "http://127.0.0.1:9009/hook", **fields}
        return self.post("/subscriptions", json=fields, status=201)
