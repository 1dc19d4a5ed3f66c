"""Bodies, fields and parameters: read strictly, refused by name, never a 500."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Blueprint, Flask, jsonify
from flask.testing import FlaskClient

from dashboard.api import bodies
from dashboard.api.fields import Field, accepts, parse_object
from dashboard.api.handlers import install
from dashboard.api.parameters import WINDOW, Parameter, read_window, refuse_unknown, takes

LIMIT = 10
FIELDS = (
    Field("reason", "string", "why", max_length=20),
    Field("count", "integer", "how many", minimum=0, maximum=9),
    Field("rate", "number", "how fast", nullable=True),
    Field("filter", "object", "which"),
)


@pytest.fixture(name="client")
def _client() -> Iterator[FlaskClient]:
    blueprint = Blueprint("probe", __name__, url_prefix="/api/v1")
    install(blueprint)
    blueprint.before_request(refuse_unknown)

    @blueprint.post("/raw")
    def _raw() -> bytes:
        return bodies.read_body(LIMIT)

    @blueprint.post("/fields")
    @accepts(*FIELDS)
    def _fields(body: dict[str, Any]) -> Any:
        return jsonify(body)

    @blueprint.post("/required/<int:number>")
    @accepts(Field("name", "string", "whose", required=True))
    def _required(number: int, body: dict[str, Any]) -> Any:
        return jsonify([number, body])

    @blueprint.get("/list")
    @takes(*WINDOW, Parameter("state", "which", repeatable=True))
    def _list() -> Any:
        window = read_window()
        return jsonify([window.limit, window.after, window.before])

    app = Flask(__name__)
    app.register_blueprint(blueprint)
    with app.test_client() as client:
        yield client


def document(response: Any) -> dict[str, Any]:
    """Give the problem that a response is."""
    assert response.content_type == "application/problem+json"
    return dict(response.json)


def post_stream(client: FlaskClient, stream: io.IOBase, **environ: Any) -> Any:
    """Post a body as a server hands it on, its length as announced and not as it is."""
    given = {"wsgi.input": stream, "wsgi.input_terminated": True} | environ
    return client.post("/api/v1/raw", environ_overrides=given)


def chunked(client: FlaskClient, body: bytes) -> Any:
    return post_stream(client, io.BytesIO(body), HTTP_TRANSFER_ENCODING="chunked")


@pytest.mark.parametrize("size", [0, 1, LIMIT])
def test_a_body_within_the_limit_is_read_whole(client: FlaskClient, size: int) -> None:
    body = bytes(range(size))
    assert client.post("/api/v1/raw", data=body).data == body
    assert chunked(client, body).data == body


class Untouchable(io.RawIOBase):
    """A stream that must not be read."""

    def readable(self) -> bool:
        return True

    def readinto(self, _buffer: Any) -> int:
        pytest.fail("the body was read")


def test_a_body_that_announces_too_much_is_not_read(client: FlaskClient) -> None:
    response = post_stream(client, Untouchable(), CONTENT_LENGTH=str(LIMIT + 1))
    assert (response.status_code, document(response)["code"]) == (413, "too_large")


def test_a_chunked_body_over_the_limit_is_refused_while_reading(client: FlaskClient) -> None:
    assert chunked(client, b"x" * (LIMIT + 1)).status_code == 413
    assert chunked(client, b"x" * 200_000).status_code == 413


def test_a_body_that_ends_early_is_not_taken_for_a_whole_one(client: FlaskClient) -> None:
    response = post_stream(client, io.BytesIO(b"abc"), CONTENT_LENGTH="9")
    assert (response.status_code, document(response)["code"]) == (400, "broken_body")


class Silent(io.RawIOBase):
    """A stream whose client went silent: its socket's time ran out."""

    def readable(self) -> bool:
        return True

    def readinto(self, _buffer: Any) -> int:
        raise TimeoutError


class Listening:
    """Stands for gunicorn's socket: notes the limits that are set on it."""

    def __init__(self) -> None:
        self.limits: list[float | None] = []

    def settimeout(self, seconds: float | None) -> None:
        self.limits.append(seconds)


def test_a_silent_client_is_given_up(client: FlaskClient) -> None:
    connection = Listening()
    environ = {"CONTENT_LENGTH": "9", "gunicorn.socket": connection}
    response = post_stream(client, Silent(), **environ)
    assert (response.status_code, document(response)["code"]) == (408, "request_timeout")
    assert connection.limits == [bodies.SILENCE_SECONDS, None]


def test_a_body_that_drips_for_too_long_is_given_up(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "TOTAL_SECONDS", -1)
    assert client.post("/api/v1/raw", data=b"x").status_code == 408


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity, gzip", "GZIP"])
def test_compressed_bodies_are_refused(client: FlaskClient, encoding: str) -> None:
    response = client.post("/api/v1/raw", data=b"x", headers={"Content-Encoding": encoding})
    assert (response.status_code, document(response)["field"]) == (415, "Content-Encoding")
    assert client.post("/api/v1/raw", data=b"x", headers={"Content-Encoding": "identity"}).data


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b' {"reason": "it is mended", "count": 3, "rate": null, "filter": {"state": ["dlq"]}} ',
        '{"reason": "日本 é"}'.encode(),
        b'{"rate": 1.5}',
        b'{"rate": 2}',
    ],
)
def test_a_body_of_known_fields_is_read(client: FlaskClient, body: bytes) -> None:
    response = client.post("/api/v1/fields", data=body, headers=JSON)
    assert response.status_code == 200
    assert response.json == parse_object(body or b"{}")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"resaon": "x"}', "resaon"),
        (b'{"reason": 1}', "reason"),
        (b'{"reason": null}', "reason"),
        (b'{"reason": "' + b"x" * 21 + b'"}', "reason"),
        (b'{"reason": "\\u0000"}', "reason"),
        (b'{"reason": "\\ud800"}', "reason"),
        (b'{"reason": "a", "reason": "b"}', "reason"),
        (b'{"\\ud800": 1}', "?"),
        (b'{"count": "3"}', "count"),
        (b'{"count": 3.0}', "count"),
        (b'{"count": true}', "count"),
        (b'{"count": -1}', "count"),
        (b'{"count": 10}', "count"),
        (b'{"rate": "fast"}', "rate"),
        (b'{"rate": false}', "rate"),
        (b'{"filter": []}', "filter"),
        (b'{"filter": {"q": "\\u0000"}}', "filter"),
        (b'{"filter": {"\\udc00": "x"}}', "filter"),
        (b'{"filter": {"a": 1, "a": 2}}', "a"),
    ],
)
def test_a_bad_field_is_named(client: FlaskClient, body: bytes, field: str) -> None:
    response = client.post("/api/v1/fields", data=body, headers=JSON)
    assert (response.status_code, document(response)["field"]) == (422, field)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b"7",
        b'"x"',
        b"{} {}",
        b'{"count": NaN}',
        b'{"count": 1e400}',
        b'{"count": ' + b"9" * 5000 + b"}",
        b'{"filter": ' + b"[" * 60_000,
        b"\xef\xbb\xbf{}",
        b'{"reason": "\xff"}',
        "{}".encode("utf-16"),
        b"{'count': 1}",
        b'{"reason": "\x01"}',
    ],
)
def test_what_is_no_json_object_does_not_parse(client: FlaskClient, body: bytes) -> None:
    response = client.post("/api/v1/fields", data=body, headers=JSON)
    assert (response.status_code, document(response)["code"]) == (400, "invalid_json")


@pytest.mark.parametrize(
    "content_type",
    [None, "text/plain", "application/json; charset=utf-16", "application/x-www-form-urlencoded"],
)
def test_another_media_type_is_refused(client: FlaskClient, content_type: str | None) -> None:
    response = client.post("/api/v1/fields", data=b"{}", content_type=content_type)
    assert (response.status_code, document(response)["field"]) == (415, "Content-Type")
    utf8 = "application/json; charset=UTF-8"
    assert client.post("/api/v1/fields", data=b"{}", content_type=utf8).status_code == 200


def test_a_required_field_must_be_there(client: FlaskClient) -> None:
    assert document(client.post("/api/v1/required/1", data=b"{}", headers=JSON))["field"] == "name"
    assert client.post("/api/v1/required/1", data=b"", headers=JSON).status_code == 400
    response = client.post("/api/v1/required/1", json={"name": "x"})
    assert response.json == [1, {"name": "x"}]


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("", [50, None, None]),
        ("limit=1", [1, None, None]),
        ("limit=100&after=abc", [100, "abc", None]),
        ("before=abc&state=a&state=b", [50, None, "abc"]),
    ],
)
def test_a_window_is_read(client: FlaskClient, query: str, answer: list[Any]) -> None:
    assert client.get(f"/api/v1/list?{query}").json == answer


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=101", "limit"),
        ("limit=1000000", "limit"),
        ("limit=1e9", "limit"),
        ("limit=abc", "limit"),
        ("limit=", "limit"),
        ("limit=+5", "limit"),
        ("limit=%D9%A3", "limit"),
        ("limit=5&limit=6", "limit"),
        ("page=2", "page"),
        ("state[]=a", "state[]"),
        ("sort=id;drop", "sort"),
        ("state=%00", "state"),
        ("after=", "after"),
        ("after=" + "x" * 2000, "after"),
        ("after=a&before=b", "before"),
    ],
)
def test_a_bad_parameter_is_named(client: FlaskClient, query: str, field: str) -> None:
    response = client.get(f"/api/v1/list?{query}")
    assert (response.status_code, document(response)["field"]) == (422, field)


def test_a_route_without_parameters_takes_none(client: FlaskClient) -> None:
    assert document(client.post("/api/v1/raw?x=1", data=b""))["field"] == "x"
