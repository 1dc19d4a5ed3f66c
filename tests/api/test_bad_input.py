"""Every kind of bad input to the producers' door: a clear refusal, no event, never a 500.

The numbers are of the table that this door was designed against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from psycopg import Connection

from api_client import Api

JSON = "application/json"
ROUTE = "/events/invoice.paid"


@dataclass(frozen=True)
class Bad:
    """One request and its refusal."""

    row: int
    what: str
    status: int
    code: str
    body: bytes = b"{}"
    path: str = ROUTE
    method: str = "POST"
    content_type: str | None = JSON
    headers: dict[str, str] = field(default_factory=dict)
    names: str | None = None
    authorization: str | None = None

    def __str__(self) -> str:
        return f"{self.row}: {self.what}"


def bad_json(row: int, what: str, body: bytes) -> Bad:
    return Bad(row, what, 400, "invalid_json", body, names="payload")


def bad_type(what: str, quoted: str, status: int = 422) -> Bad:
    code, names = ("invalid", "event_type") if status == 422 else ("not_found", None)
    return Bad(21, what, status, code, path=f"/events/{quoted}", names=names)


def bad_key(what: str, key: str) -> Bad:
    return Bad(22, what, 422, "invalid", headers={"Idempotency-Key": key}, names="Idempotency-Key")


def bad_token(what: str, header: str) -> Bad:
    return Bad(27, what, 401, "unauthenticated", authorization=header)


CASES = [
    Bad(1, "an empty body", 400, "empty_body", b""),
    Bad(1, "an empty opaque body", 400, "empty_body", b"", content_type="text/plain"),
    Bad(2, "one byte too many", 413, "too_large", b'"' + b"x" * 262_143 + b'"'),
    Bad(
        6, "gzip", 415, "unsupported_media_type",
        headers={"Content-Encoding": "gzip"}, names="Content-Encoding",
    ),
    *(
        Bad(7, text, 415, "unsupported_media_type", content_type=text, names="Content-Type")
        for text in ("application/json; charset=utf-16", "json", "text/", "a/b; c", "a/b,c/d")
    ),
    *(
        bad_json(8, str(body), body)
        for body in (b"{", b"[1,]", b"{} {}", b"{'a':1}", b'"\x01"', b" ", b"nul", b"01", b"{a:1}")
    ),
    bad_json(9, "NaN", b'{"a":NaN}'),
    bad_json(9, "Infinity", b"[Infinity]"),
    bad_json(9, "-Infinity", b"-Infinity"),
    bad_json(12, "too deep", b"[" * 100_000),
    bad_json(12, "just too deep", b"[" * 65 + b"]" * 65),
    bad_json(16, "invalid UTF-8", b'"\xff"'),
    bad_json(16, "overlong UTF-8", b'"\xc0\x80"'),
    bad_json(16, "a surrogate in UTF-8", b'"\xed\xa0\x80"'),
    bad_json(17, "a byte order mark", b"\xef\xbb\xbf{}"),
    bad_json(18, "UTF-16", '{"a":1}'.encode("utf-16")),
    bad_json(18, "UTF-16 without a mark", '{"a":1}'.encode("utf-16-le")),
    bad_json(18, "UTF-32", "{}".encode("utf-32-be")),
    bad_type("300 characters", "x" * 300),
    bad_type("129 characters", "x" * 129),
    bad_type("two dots", "a..b"),
    bad_type("a dot first", ".a"),
    bad_type("a dot last", "a."),
    bad_type("a space", "a%20b"),
    bad_type("a letter with a mark", "%C3%A4"),
    bad_type("a newline", "a%0A"),
    bad_type("a NUL", "a%00"),
    bad_type("broken UTF-8", "%FF"),
    bad_type("a hyphen", "a-b"),
    bad_type("markup", "%3Cb%3E"),
    bad_type("our own", "fencepost.test"),
    bad_type("a slash", "a%2Fb", status=404),
    Bad(21, "no type", 415, "unsupported_media_type", path="/events/", names="Content-Type"),
    bad_key("empty", ""),
    bad_key("256 characters", "k" * 256),
    bad_key("a space", "a b"),
    bad_key("a tab", "a\tb"),
    bad_key("not ASCII", "clé"),
    bad_key("twice, as a server joins them", "a, b"),
    bad_token("no scheme", "fp_x"),
    bad_token("another scheme", "Basic dXNlcjpwYXNz"),
    bad_token("nothing after it", "Bearer "),
    bad_token("a megabyte", "Bearer " + "x" * 1_000_000),
    bad_token("two", "Bearer a,Bearer b"),
    bad_token("unknown", f"Bearer fp_{'0' * 32}_{'A' * 43}"),
    bad_token("not ASCII", "Bearer clé"),
    bad_token("a NUL", "Bearer a\0b"),
    *(
        Bad(29, method, 405, "method_not_allowed", method=method, path="/events/a.b")
        for method in ("PUT", "PATCH", "DELETE", "TRACE", "PROPFIND")
    ),
    Bad(
        29, "an override", 405, "method_not_allowed", method="PUT",
        headers={"X-HTTP-Method-Override": "POST"},
    ),
    Bad(30, "dots", 404, "not_found", path="/events/../admin"),
    Bad(30, "quoted dots", 422, "invalid", path="/events/%2e%2e", names="event_type"),
    Bad(30, "a parameter", 422, "invalid", path="/events/a;x", names="event_type"),
    Bad(30, "a query", 422, "invalid", path="/events/a?type=b", names="type"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bad_input_is_refused(api: Api, count_events: Callable[[], int], case: Bad) -> None:
    before = count_events()
    headers = dict(case.headers)
    if case.authorization is not None:
        headers["Authorization"] = case.authorization
    response = api.call(
        case.method, case.path, data=case.body, content_type=case.content_type, headers=headers
    )
    problem: Any = response.json
    assert (response.status_code, problem["code"]) == (case.status, case.code), problem
    assert problem.get("field") == case.names
    assert len(response.data) < 1000
    assert response.data.isascii()
    assert count_events() == before


OPAQUE = [
    (7, "text/plain", b"\xff\xfe not JSON"),
    (10, JSON, b"1e400"),
    (11, JSON, b"9" * 5000),
    (12, JSON, b"[" * 64 + b"]" * 64),
    (13, JSON, b'{"type":"a","type":"b"}'),
    (14, JSON, b'"\\u0000"'),
    (15, JSON, b'"\\ud800"'),
    (19, JSON, '{"z": 1.10, "a":9007199254740993 , "é":"é"}'.encode()),
    (20, JSON, b"null"),
    (21, JSON, b'{"__proto__": {}}'),
    (25, JSON, b'{"id": "chosen by the client"}'),
    (26, JSON, b'{"timestamp": "2026-02-30"}'),
]


@pytest.mark.parametrize(("row", "content_type", "body"), OPAQUE)
def test_what_is_only_odd_is_taken_in(api: Api, row: int, content_type: str, body: bytes) -> None:
    assert row
    assert api.publish("__proto__.odd", body, content_type=content_type)["duplicate"] is False


def test_a_client_cannot_choose_an_events_id(api: Api) -> None:
    line = b'{"event_type":"a","payload":1,"id":"chosen.by.client"}'
    problem = api.post("/events", data=line, content_type="application/x-ndjson", status=422)
    assert problem["field"] == "id"


def test_a_viewer_may_not_publish(api: Api, count_events: Callable[[], int]) -> None:
    before = count_events()
    assert api.publish("a", b"{}", role="viewer", status=403)["code"] == "forbidden"
    assert api.publish("a", b"{}", role="operator")["duplicate"] is False
    assert count_events() == before + 1


def test_all_refusals_of_a_token_look_alike(api: Api, owner: Connection[Any]) -> None:
    texts = set()
    for header in (None, "Basic x", "Bearer x", f"Bearer fp_{'0' * 32}_{'A' * 43}"):
        headers = {} if header is None else {"Authorization": header}
        response = api.call("GET", "/deliveries", role=None, headers=headers, status=401)
        document: Any = response.json
        assert response.headers["WWW-Authenticate"].startswith("Bearer")
        texts.add(response.text.replace(document["request_id"], ""))
    assert len(texts) == 1
    owner.execute(
        "UPDATE webhook_api_tokens SET revoked_at = fencepost_now() WHERE name = 'the viewer'"
    )
    response = api.call("GET", "/deliveries", role="viewer", status=401)
    owner.execute("UPDATE webhook_api_tokens SET revoked_at = NULL, expires_at = fencepost_now()")
    for role in ("viewer", "operator", "admin"):
        api.call("GET", "/deliveries", role=role, status=401)
    owner.execute("UPDATE webhook_api_tokens SET expires_at = NULL")
    api.call("GET", "/deliveries", role="viewer", status=200)


def test_a_doubled_slash_leads_nowhere_else(api: Api) -> None:
    response = api.client.post("/api/v1//events", data=b"x")
    assert response.status_code == 308
    assert response.headers["Location"].endswith("/api/v1/events")


def test_a_browsers_login_is_worth_nothing_here(api: Api) -> None:
    api.client.set_cookie("fencepost_session", "x" * 43)
    api.call("GET", "/deliveries", role=None, status=401)
    api.client.delete_cookie("fencepost_session")


def test_every_route_says_which_role_it_needs(api: Api) -> None:
    app = api.client.application
    for rule in app.url_map.iter_rules():
        if not rule.endpoint.startswith("api."):
            continue
        view: Any = app.view_functions[rule.endpoint]
        changes = (rule.methods or set()) & {"POST", "PATCH", "DELETE", "PUT"}
        assert view.required_role in ({"operator", "admin"} if changes else {"viewer"}), rule


def test_nothing_changes_by_being_looked_at(api: Api) -> None:
    for rule in api.client.application.url_map.iter_rules():
        methods = rule.methods or set()
        if (
            not rule.endpoint.startswith("api.")
            or "POST" not in methods
            or "<event_type>" in rule.rule
        ):
            continue
        path = rule.rule.removeprefix("/api/v1")
        for name in rule.arguments:
            path = path.replace(f"<{name}>", "01a22de9-dad9-7ef9-8482-d27f8cea0835")
        is_list = path in {"/replays", "/subscriptions"}
        response = api.call("GET", path, status=200 if is_list else 405)
        assert is_list or response.headers["Allow"] == "OPTIONS, POST"
