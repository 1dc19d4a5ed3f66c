"""The four doors that an event can come in by, each opened as its users open it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
import requests

from fencepost import publish
from fencepost.producer import Producer
from fencepost.settings import Settings
from samples import JSON, Sample

LINES = 50
"""Events in a batch; fewer than a request may carry, so that there are several."""


@dataclass(frozen=True, slots=True)
class HttpApi:
    """The API with a token, over one connection that is kept."""

    url: str
    session: requests.Session

    def call(self, method: str, path: str, *, status: int = 200, **options: Any) -> Any:
        """Send a request that must be answered with ``status``; give the answer's document."""
        answer = self.session.request(
            method, f"{self.url}/api/v1{path}", timeout=30, allow_redirects=False, **options
        )
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def pages(self, path: str, **params: Any) -> list[Any]:
        """Read a listing to its end."""
        rows: list[Any] = []
        page = self.call("GET", path, params=params)
        while True:
            rows += page["data"]
            if page["next"] is None:
                return rows
            page = self.call("GET", path, params={**params, "after": page["next"]})


def open_api(url: str, token: str) -> HttpApi:
    session = requests.Session()
    session.trust_env = False
    session.headers["Authorization"] = f"Bearer {token}"
    return HttpApi(url, session)


@dataclass(frozen=True, slots=True)
class Place:
    """Where to publish."""

    environ: Mapping[str, str]
    api: HttpApi

    @property
    def database_url(self) -> str:
        return self.environ["FENCEPOST_DATABASE_URL"]


def publish_in_sql(place: Place, samples: Sequence[Sample]) -> list[UUID]:
    """Text as ``convert_to``, the rest as bytes; all in one transaction."""
    text = "SELECT webhook_publish(%s, convert_to(%s, 'UTF8'), %s)"
    binary = "SELECT webhook_publish(%s, %s::bytea, %s)"
    ids = []
    with psycopg.connect(place.database_url) as conn:
        for each in samples:
            try:
                statement, payload = text, each.body.decode()
            except UnicodeDecodeError:
                statement, payload = binary, each.body  # type: ignore[assignment]
            row = conn.execute(statement, (each.event_type, payload, each.content_type)).fetchone()
            assert row is not None
            ids.append(UUID(str(row[0])))
    return ids


def publish_in_python(place: Place, samples: Sequence[Sample]) -> list[UUID]:
    producer = Producer.of(Settings.load(place.environ))
    ids = []
    for each in samples:
        with psycopg.connect(place.database_url) as conn:
            ids.append(
                publish(
                    conn,
                    each.event_type,
                    each.body,
                    content_type=each.content_type,
                    producer=producer,
                )
            )
    return ids


def publish_over_http(place: Place, samples: Sequence[Sample]) -> list[UUID]:
    answers = [
        place.api.call(
            "POST",
            f"/events/{each.event_type}",
            status=202,
            data=each.body,
            headers={"Content-Type": each.content_type},
        )
        for each in samples
    ]
    assert not any(answer["duplicate"] for answer in answers)
    return [UUID(answer["id"]) for answer in answers]


def publish_as_ndjson(place: Place, samples: Sequence[Sample]) -> list[UUID]:
    ids = []
    for start in range(0, len(samples), LINES):
        batch = samples[start : start + LINES]
        answer = place.api.call(
            "POST",
            "/events",
            status=202,
            data=b"".join(as_line(each) for each in batch),
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert len(answer["events"]) == len(batch)
        ids += [UUID(event["id"]) for event in answer["events"]]
    return ids


def as_line(sample: Sample) -> bytes:
    """Put the payload into its line as it is, or in base64 where a line would change it."""
    head = json.dumps({"event_type": sample.event_type, "content_type": sample.content_type})
    if sample.is_inline:
        assert sample.content_type == JSON
        return head[:-1].encode() + b', "payload" : ' + sample.body + b" }\n"
    encoded = json.dumps({"payload_base64": base64.b64encode(sample.body).decode()})
    return f"{head[:-1]}, {encoded[1:]}\n".encode()


DOORS: Mapping[str, Callable[[Place, Sequence[Sample]], list[UUID]]] = {
    "SQL": publish_in_sql,
    "Python": publish_in_python,
    "HTTP": publish_over_http,
    "NDJSON": publish_as_ndjson,
}
