"""Payloads to publish: hostile ones, generated ones, and those of a file of real ones."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Sample:
    """What is published, byte for byte."""

    event_type: str
    body: bytes = field(repr=False)
    content_type: str = JSON

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @property
    def is_inline(self) -> bool:
        """Whether it can stand in a line of JSON as it is, with nothing lost around it."""
        return (
            self.content_type == JSON and b"\n" not in self.body and self.body == self.body.strip()
        )


HOSTILE = (
    Sample("hostile.spaces", b'{"b":1,  "a":1.10}\n'),
    Sample("hostile.escapes", '{"a":"\\u00e9é","A":"\\u00E9"}'.encode()),
    Sample("hostile.solidus", b'{"url":"https:\\/\\/example.com/"}'),
    Sample("hostile.big_number", b'{"id":9007199254740993,"e":1E400,"z":-0.0}'),
    Sample("hostile.duplicate_keys", b'{"a":1,"a":2,"a":1}'),
    Sample("hostile.empty_list", b"[]"),
    Sample("hostile.lone_surrogate", b'"\\ud800 and \\u0000"'),
    Sample("hostile.binary", bytes(range(256)), "application/octet-stream"),
    Sample("hostile.emoji", "👩‍🚀🏳️‍🌈 \u202eright to left\n".encode(), "text/plain; charset=utf-8"),
    Sample("hostile.large", b'{"lines":"' + b"0123456789abcdef" * 12_800 + b'"}'),
)

_SPACES = ("", "", "", " ", "  ", "\t")
_TEXTS = (
    "plain", "Straße", "naïve café", "日本語のテキスト", "🚀 to the 🌙", '\\"quoted\\"', "a\\/b",
    "\\u00e9", "\\ud83d\\ude80", "line\\nbreak", "%s %(name)s", "'; DROP TABLE x --",
    "<b>&amp;</b>",
)  # fmt: skip
_NUMBERS = ("0", "-0", "1.10", "1e5", "1E+05", "9007199254740993", "-12.500", "3.0000000000000001")
_WORDS = ("true", "false", "null")


def generate(count: int, *, seed: int = 2026) -> list[Sample]:
    """Make JSON of 0.9 to 28 kB that no serialiser would write in just this way."""
    chance = random.Random(seed)
    smallest, largest = 900, 28_000
    step = (largest - smallest) // max(1, count - 1)
    return [
        Sample(f"generated.kind_{number % 7}", _document(chance, smallest + number * step))
        for number in range(count)
    ]


def _document(chance: random.Random, size: int) -> bytes:
    members: list[str] = []
    length = 2
    while length < size:
        member = f'"key_{len(members)}"{_space(chance)}:{_space(chance)}{_value(chance, 3)}'
        members.append(member)
        length += len(member.encode()) + 1
    return ("{" + ",".join(members) + "}").encode()


def _value(chance: random.Random, depth: int) -> str:
    kind = chance.randrange(5 if depth else 3)
    if kind == 0:
        return chance.choice(_NUMBERS)
    if kind == 1:
        return chance.choice(_WORDS)
    if kind == 2:
        return '"' + " ".join(chance.choices(_TEXTS, k=chance.randint(1, 8))) + '"'
    inner = [_value(chance, depth - 1) for _ in range(chance.randint(0, 4))]
    if kind == 3:
        return "[" + _space(chance) + f",{_space(chance)}".join(inner) + _space(chance) + "]"
    # Keys repeat on purpose.
    named = (f'"k{chance.randrange(3)}":{_space(chance)}{value}' for value in inner)
    return "{" + f"{_space(chance)},".join(named) + "}"


def _space(chance: random.Random) -> str:
    return chance.choice(_SPACES)


_HEAD = re.compile(r'\{"event_type":"([A-Za-z0-9_.]+)","payload":')


def read(file: Path) -> Iterator[Sample]:
    """Slice the payloads out of a gzipped file of lines: ``{"event_type":"…","payload":…}``."""
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            head = _HEAD.match(line)
            assert head is not None, f"{file}, line {number}: it does not begin as it should"
            _, end = json.JSONDecoder().raw_decode(line, head.end())
            assert line[end:] == "}\n", f"{file}, line {number}: something follows the payload"
            yield Sample(head[1], line[head.end() : end].encode())
