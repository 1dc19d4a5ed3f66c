"""Every address that the dashboard answers to a reader, with what people ask of it.

The routes are the application's own: one that nobody thought of here is measured as it stands, and
one whose path has a part that nobody here knows how to fill stops the benchmark.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode, urlsplit

from flask import Flask
from pages_samples import Samples
from runs import BenchmarkError
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Rule

from fencepost.cursors import Cursors, Position
from fencepost.filters import DeliveryFilter

Query = Mapping[str, str]

_NOT_MEASURED: Final = {
    "assets.file": "a file", "assets.favicon": "a file", "assets.robots": "a file",
    "live.stream": "never ends", "session.link": "reads nothing",
}  # fmt: skip
_LISTS: Final = frozenset({"deliveries.index", "dlq.index", "api.list_deliveries"})
_WINDOWED: Final = frozenset(
    {"overview.index", "subscriptions.index", "subscriptions.show", "api.read_stats"}
)
_WINDOWS: Final = ("-15m", "-24h", "-7d", "-30d", "-365d")
_LOG: Final = {
    "actor": {"actor": "user dana"},
    "action": {"action": "delivery.replay"},
    "nobody": {"actor": "user nobody"},
    "an hour in the past": {"from": "-4000h", "to": "-3999h"},
}
_QUERIES: Final[Mapping[str, Mapping[str, Query]]] = {
    "dlq.index": {"by cause": {"group": "signature"}, "one by one": {"group": "none"}},
    "deliveries.show": {f"tab {tab}": {"tab": tab} for tab in ("attempts", "payload", "audit")},
    "audit.index": _LOG,
    "api.list_audit": _LOG,
    "subscriptions.index": {
        f"sort {by}": {"sort": by} for by in ("name", "retry_rate", "dlq", "p95")
    },
}
_REGION: Final = re.compile(r'hx-get="(/_f/[^"]+)"')
_NEXT: Final = re.compile(r'rel="next" href="([^"]+)"')


@dataclass(frozen=True, slots=True)
class Address:
    """One line of the table.

    Attributes:
        rule: as the application has it.
        what: is asked for.
        urls: to be fetched in turn: the same question about different things.
    """

    rule: str
    what: str
    urls: Sequence[str]


def addresses(app: Flask, found: Samples, secret: bytes) -> Iterator[Address]:
    """Give all of them but those of regions, which pages themselves ask for."""
    for rule in sorted(app.url_map.iter_rules(), key=str):
        if "GET" not in (rule.methods or ()) or rule.endpoint in _NOT_MEASURED:
            continue
        for name, paths in _paths(rule, found).items():
            for question, query in _queries(rule.endpoint, found, secret):
                tail = f"?{urlencode(query)}" if query else ""
                what = ", ".join(part for part in (name, question) if part)
                yield Address(rule.rule, what, [path + tail for path in paths])


def regions_of(app: Flask, page: str, body: str, what: str) -> Iterator[Address]:
    """Give the regions that a page refreshes, and the page that follows it.

    Args:
        app: whose rules they are.
        page: the rule of the page.
        body: as it was answered.
        what: was asked of the page.
    """
    rules = app.url_map.bind("localhost")
    for url in {html.unescape(each) for each in _REGION.findall(body)}:
        parts = urlsplit(url)
        try:
            rule, _ = rules.match(parts.path, "GET", return_rule=True)
        except HTTPException as error:
            raise BenchmarkError(f"{page} asks for {url}, which is not there") from error
        yield Address(rule.rule, f"of {page}{', ' + what if what else ''}", [url])
    for url in _NEXT.findall(body)[:1]:
        yield Address(page, ", ".join(filter(None, (what, "the next one"))), [html.unescape(url)])


def _paths(rule: Rule, found: Samples) -> Mapping[str, Sequence[str]]:
    """Fill a rule's path, once for each kind of thing that it may be about."""
    kinds: Mapping[str, Mapping[str, Sequence[str]]] = {
        "delivery_id": _texts(found.deliveries),
        "subscription_id": _texts(found.subscriptions),
        "event_id": _texts({"": found.events}),
        "replay_id": _texts({"": found.replays}),
        "discard_id": _texts({"": found.discards}),
        "number": {"": ["1"]},
        "name": {"": ["replay" if "deliver" in rule.rule else "test"]},
    }
    unknown = rule.arguments - set(kinds)
    if unknown:
        raise BenchmarkError(f"{rule.rule}: what may stand for {', '.join(unknown)}?")
    paths: dict[str, list[str]] = {"": [rule.rule]}
    for argument in sorted(rule.arguments):
        place = re.compile(rf"<(?:[^<>]*:)?{argument}>")
        paths = {
            " ".join(filter(None, (name, kind))): [
                place.sub(value, template) for template in templates for value in values
            ]
            for name, templates in paths.items()
            for kind, values in kinds[argument].items()
        }
    return paths


def _texts(ids: Mapping[str, Sequence[object]]) -> Mapping[str, Sequence[str]]:
    return {name: [str(id_) for id_ in each] for name, each in ids.items()}


def _queries(endpoint: str, found: Samples, secret: bytes) -> Iterator[tuple[str, Query]]:
    """Give what is asked of a route besides its path, each with its name."""
    yield "", {}
    largest = str(found.subscriptions["largest"][0])
    if endpoint in _LISTS:
        yield from _filters(found)
        yield "deep", _deep(endpoint, {}, found, secret)
        yield "deep, of the largest", _deep(endpoint, {"sub": largest}, found, secret)
    if endpoint in _WINDOWED:
        yield from ((f"from {since}", {"from": since}) for since in _WINDOWS)
    if endpoint == "api.read_stats":
        yield "of the largest", {"sub": largest}
        yield "of the largest, a year", {"sub": largest, "from": "-365d"}
    if endpoint == "search.index":
        yield from ((name, {"q": text}) for name, text in _searched(found))
    yield from _QUERIES.get(endpoint, {}).items()


def _filters(found: Samples) -> Iterator[tuple[str, Query]]:
    subs = {name: str(ids[0]) for name, ids in found.subscriptions.items()}
    yield from ((f"sub {name}", {"sub": id_}) for name, id_ in subs.items())
    yield from (
        (f"state {state}", {"state": state})
        for state in ("encrypted", "leased", "attempted", "retried", "delivered", "dlq")
    )
    yield from ((f"code {code}", {"code": code}) for code in ("404", "503", "5xx", "299", "none"))
    yield from ((f"err {err}", {"err": err}) for err in ("timeout", "http_4xx", "invalid_url"))
    yield "type", {"type": "invoice.*"}
    yield "type of a small one", {"type": "*.c7777"}
    yield "no such type", {"type": "nothing.like.this"}
    yield "q: a key", {"q": found.key}
    yield "q: an id", {"q": str(found.deep)}
    yield "q: nothing", {"q": "no-such-key"}
    yield "worker", {"worker": found.worker}
    yield "worker of long ago", {"worker": found.old_worker}
    yield from ((f"from {since}", {"from": since}) for since in ("-15m", "-24h", "-30d"))
    yield "an hour in the past", {"from": "-4000h", "to": "-3999h"}
    yield "min_attempts", {"min_attempts": "4"}
    yield "min_attempts, many", {"min_attempts": "900"}
    yield "max_attempts", {"max_attempts": "0"}
    yield "discarded", {"discarded": "1"}
    yield "replay", {"replay": str(found.replays[0])}
    yield "sub and state", {"sub": subs["largest"], "state": "delivered"}
    yield "sub and code", {"sub": subs["largest"], "code": "404"}
    yield "sub and err", {"sub": subs["failing"], "err": "timeout"}
    yield "day and code", {"from": "-24h", "code": "404"}
    yield "state and err", {"state": "retried", "err": "http_5xx"}
    for order in ("newest", "oldest", "slowest", "most_attempts"):
        yield f"sort {order}", {"sort": order}


def _deep(endpoint: str, query: Query, found: Samples, secret: bytes) -> Query:
    """Point nine tenths down a list."""
    params = {name: [value] for name, value in query.items()}
    if endpoint == "dlq.index":
        scope = DeliveryFilter.from_params({**params, "state": ["dlq"], "discarded": ["0"]})
        place = Position(*found.deep_dead)
    else:
        scope, place = DeliveryFilter.from_params(params), Position(found.deep)
    after = Cursors(secret).write(place, scope=scope.fingerprint()) or ""
    return {**query, "after": after}


def _searched(found: Samples) -> Iterator[tuple[str, str]]:
    yield "a key", found.key
    yield "the beginning of a key", found.key[:-1]
    yield "a delivery", str(found.deep)
    yield "the beginning of an id", str(found.deep)[:8]
    yield "a subscription", "acme"
    yield "a worker", found.worker
    yield "nothing", "there-is-no-such-thing"
