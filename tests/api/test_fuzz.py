"""Whatever a client sends to whichever route, the answer is its own fault or a success."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection

from api_client import Api
from factories import make_deliveries, make_subscription
from fencepost.filters import NAMES
from fencepost.subscription_spec import FIELDS

# The fixtures hold nothing that one example could spoil for the next.
unhurried = settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

TEXT = st.text(max_size=12)
WORDS = st.sampled_from(
    [
        "dlq", "-1h", "2026-01-01T00:00:00Z", "0001-01-01", "9999-12-31T23:59:59-12:00", "503",
        "5xx", "*", "a.*", "%", "\\", "'", "\0", "1e400", "-0", "99999999999", "\ud800",
        "whsec_", "http://127.0.0.1:9009/", "http://[::1", "//", "standard", "stripe",
        "three-days", "\u0663", "é", "\u202e",
    ]
)  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from([0, -1, 2**31, 2**63, 10**17, 0.1, 1e300, -1e-300]),
    WORDS,
    TEXT,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(WORDS, TEXT, st.sampled_from(NAMES)), inner, max_size=3),
    ),
    max_leaves=6,
)
# What might pass, so that the code behind the checks is reached as well.
PLAUSIBLE: dict[str, list[Any]] = {
    "id": [str(UUID(int=0))],
    "sub": [str(UUID(int=0)), [str(UUID(int=1)), str(UUID(int=2))]],
    "state": ["dlq", "retried", ["dlq", "delivered"]],
    "phase": ["waiting", "parked"],
    "type": ["*", "a.*", "invoice.*"],
    "from": ["-1h", "1970-01-01T00:00:00Z", "2026-11-30T16:55:00+23:59"],
    "to": ["-1m", "9999-12-31T23:59:59.999999Z"],
    "code": ["503", "5xx", "none", "100-999"],
    "err": ["timeout", "http_5xx"],
    "min_attempts": ["0", "1"],
    "max_attempts": ["3", str(2**31 - 1), 3, 1000],
    "q": ["0", "a%_b", "\\", "'"],
    "replay": [str(UUID(int=0))],
    "worker": ["w-1", "%"],
    "fenced": ["0", "1"],
    "discarded": ["0", "1"],
    "sort": ["newest", "oldest"],
    "limit": ["1", "100"],
    "name": ["a", "é"],
    "url": ["http://127.0.0.1:9009/"],
    "event_types": [["*"], ["a.*", "b"], []],
    "signature_scheme": ["standard", "stripe", "prefixed"],
    "signature_header": [None, "X-Signature"],
    "headers": [{}, {"X-A": "1"}],
    "backoff_base_seconds": [0.001, 1, 1e9],
    "backoff_cap_seconds": [1, 3600, 1e9],
    "retry_preset": [None, "standard-webhooks", "three-days"],
    "retry_statuses": [[], [404]],
    "no_retry_statuses": [[], [503]],
    "max_in_flight": [None, 1, 100],
    "rate_limit_per_second": [None, 0.5, 100],
    "ordered": [False, True],
    "filter": [{}, {"state": "dlq"}, {"sub": [str(UUID(int=0))]}],
    "reason": ["mended", None, "日本"],
    "rate_per_second": [None, 1, 0.5, 1e6],
    "confirm": [0, 1],
    "overlap_seconds": [0, 60, 2_592_000],
}
EXTRA = [
    "after", "before", "secret", "event_type", "payload", "payload_base64", "content_type",
    "idempotency_key",
]  # fmt: skip
PARTS = st.sampled_from([*PLAUSIBLE, *EXTRA])


def mostly(
    likely: st.SearchStrategy[Any], otherwise: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    """Draw what is likely nine times of ten."""
    return st.integers(0, 9).flatmap(lambda die: otherwise if die == 0 else likely)


def value_of(name: str) -> st.SearchStrategy[Any]:
    """Draw something that might pass for a field, or anything at all."""
    likely = PLAUSIBLE.get(name)
    return VALUES if likely is None else mostly(st.sampled_from(likely), VALUES)


def objects(names: st.SearchStrategy[str], most: int) -> st.SearchStrategy[dict[str, Any]]:
    """Draw an object with some of these fields."""
    member = names.flatmap(lambda name: st.tuples(st.just(name), value_of(name)))
    return st.lists(member, max_size=most).map(dict)


BODIES = st.one_of(
    st.just(b""),
    objects(st.sampled_from(["reason", "confirm", "rate_per_second", "overlap_seconds"]), 1).map(
        lambda found: json.dumps(found).encode()
    ),
    objects(PARTS, 4).map(lambda found: json.dumps(found).encode()),
    st.text(alphabet='{}[]":,\\u0d8eNa1.-+ \n', max_size=30).map(str.encode),
)
QUERIES: st.SearchStrategy[list[tuple[str, str]]] = mostly(
    st.just([]),
    st.lists(st.tuples(st.one_of(PARTS, TEXT), st.one_of(WORDS, TEXT)), max_size=3),
)


@pytest.fixture(scope="module")
def ids(api: Api, owner: Connection[Any]) -> dict[str, list[UUID | str]]:
    """Things to act on, beside what is not there."""
    subscription = make_subscription(owner)
    return {
        "subscriptions": [api.subscribe()["id"]],
        "deliveries": [*make_deliveries(owner, subscription, 2)],
        "replays": [api.post("/replays", json={"filter": {}}, status=201)["id"]],
        "events": [api.publish("a", b"1")["id"]],
    }


ROUTES = [
    *(("POST", "subscriptions", act) for act in ("pause", "resume", "rotate-secret", "test")),
    *(("POST", "deliveries", act) for act in ("replay", "discard")),
    *(("POST", "replays", act) for act in ("start", "pause", "resume", "cancel")),
    *(("GET", thing, "") for thing in ("subscriptions", "deliveries", "replays", "events")),
    ("POST", "subscriptions", "revoke-secret"),
    ("PATCH", "subscriptions", ""),
    ("GET", "deliveries", "timeline"),
]
METHODS = st.sampled_from(["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE"])


@unhurried
@given(data=st.data(), route=st.sampled_from(ROUTES), body=BODIES, query=QUERIES)
def test_no_request_is_a_500(
    api: Api,
    ids: dict[str, list[Any]],
    data: st.DataObject,
    route: tuple[str, str, str],
    body: bytes,
    query: list[tuple[str, str]],
) -> None:
    method, thing, act = route
    id_ = data.draw(mostly(st.sampled_from(ids[thing]), TEXT))
    path = f"/{thing}/{quote(str(id_), safe='', errors='replace')}/{act}".rstrip("/")
    pairs = (f"{quote(a, errors='replace')}={quote(b, errors='replace')}" for a, b in query)
    kinds = st.sampled_from(["application/x-ndjson", "text/plain", None])
    response = api.call(
        data.draw(mostly(st.just(method), METHODS)),
        f"{path}?{'&'.join(pairs)}",
        data=body,
        content_type=data.draw(mostly(st.just("application/json"), kinds)),
    )
    assert response.status_code != 503, response.text


@unhurried
@given(
    data=st.data(),
    names=st.lists(st.sampled_from([*NAMES, "sort", "limit"]), min_size=1, max_size=4),
)
def test_no_parameter_of_the_list_is_a_500(api: Api, data: st.DataObject, names: list[str]) -> None:
    pairs = []
    for name in names:
        value = data.draw(mostly(st.sampled_from(PLAUSIBLE[name]), st.one_of(WORDS, TEXT)))
        texts = value if isinstance(value, list) else [value]
        pairs += [f"{name}={quote(str(text), errors='replace')}" for text in texts]
    response = api.call("GET", f"/deliveries?{'&'.join(pairs)}")
    assert response.status_code in {200, 422}
    if response.status_code == 422:
        document: Any = response.json
        assert document["field"] in names


@unhurried
@given(fields=objects(st.sampled_from(FIELDS), 4))
def test_no_field_of_a_subscription_is_a_500(api: Api, fields: dict[str, Any]) -> None:
    whole = {"name": "a", "url": "http://127.0.0.1:9009/", **fields}
    body = json.dumps(whole)
    response = api.call("POST", "/subscriptions", data=body, content_type="application/json")
    assert response.status_code in {201, 400, 422}
    response = api.call(
        "PATCH",
        f"/subscriptions/{api.subscribe()['id']}",
        data=json.dumps(fields),
        content_type="application/json",
    )
    assert response.status_code in {200, 400, 422}


@unhurried
@given(scope=objects(st.sampled_from(NAMES), 3), reason=value_of("reason"))
def test_no_filter_of_a_replay_is_a_500(api: Api, scope: dict[str, Any], reason: Any) -> None:
    body = json.dumps({"filter": scope, "reason": reason})
    response = api.call("POST", "/replays", data=body, content_type="application/json")
    assert response.status_code in {201, 400, 422}
