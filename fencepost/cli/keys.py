"""``fencepost keys``: which keys seal and open, and how one takes another's place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal

import click

from fencepost.cli.described import Group
from fencepost.cli.output import json_option, print_json, print_table
from fencepost.cli.progress import progress
from fencepost.cli.session import Session, actor, connected
from fencepost.errors import KeyUnavailableError
from fencepost.keyring import Keyring
from fencepost.store.actions import log_action
from fencepost.store.wrapping import FINGERPRINTS, KINDS, Kind, count_by_key, rewrap

_NEEDED: Final = ("keys", "endpoint_keys")


@click.group(
    "keys",
    cls=Group,
    examples=(
        "fencepost keys generate   # a fresh key, to put behind the first",
        "fencepost keys rotate     # once every program has it first",
        "fencepost keys list       # nothing under the old key: take it away",
    ),
)
def command() -> None:
    """Look at the keys that seal what is stored, and rotate them.

    The first key of FENCEPOST_KEYS and of FENCEPOST_ENDPOINT_KEYS seals, all of them open. A
    fresh key goes behind the first in every program, then, when all of them can open with it,
    first; what is stored already is wrapped anew, and then the old key can go.
    """


@command.command("generate", examples=("fencepost keys generate",))
def generate() -> None:
    """Print a fresh key as `id:base64key`, as the settings take it. It is stored nowhere."""
    click.echo(Keyring.generate())


@command.command("list", examples=("fencepost keys list", "fencepost keys list --json"))
@json_option
def list_keys(*, as_json: bool) -> None:
    """List the keys and how much each of them wraps. Reads every sealed row.

    `missing` wraps something and is not set: what it wraps waits until it is. Idempotency keys
    are not wrapped anew: once the old key is taken away, an event under one of these that is
    published again is refused until the key is back.
    """
    with connected(require=_NEEDED, role="owner") as at:
        found = [line for setting, ring in _rings(at).items() for line in _lines(at, setting, ring)]
    if as_json:
        print_json({"data": [asdict(line) for line in found]})
        return
    print_table(
        ("setting", "key", "role", "wraps"),
        [(line.setting, line.key, line.role, _worded(line.wraps)) for line in found],
    )


@command.command("rotate", examples=("fencepost keys rotate",))
@json_option
def rotate(*, as_json: bool) -> None:
    """Wrap everything that is stored under the first key of each setting.

    Payloads, URLs, headers, signing secrets and responses stay as they are: the keys beside them
    are wrapped anew, in batches, while workers run. It can be stopped at any moment and run
    again. Needs the rights of the tables' owner.
    """
    failures: Counter[str] = Counter()
    done: dict[str, int] = {}
    with connected(require=_NEEDED, role="owner") as at:
        rings = _rings(at)
        firsts = {setting: ring.key_ids[0] for setting, ring in rings.items()}
        log_action(at.conn, actor=actor(), action="keys.rotate", target="-", params=firsts)
        for kind in KINDS:
            done[kind.name] = _rotate(at, rings[kind.setting], kind, failures)
    if as_json:
        print_json({"wrapped_anew": done, "failures": dict(failures)})
    else:
        print_table(("what", "wrapped anew"), list(done.items()))
    if failures:
        reasons = "; ".join(f"{count} times: {reason}" for reason, count in failures.items())
        raise KeyUnavailableError(f"not everything could be wrapped anew: {reasons}")


@dataclass(frozen=True, slots=True)
class _Line:
    """One key: where it is set, what it is for, and how many of each kind it wraps."""

    setting: str
    key: str
    role: Literal["seals", "opens", "missing", "damaged"]
    wraps: dict[str, int]


def _rings(at: Session) -> dict[str, Keyring]:
    settings = at.settings
    return {
        "FENCEPOST_KEYS": settings.keyring(),
        "FENCEPOST_ENDPOINT_KEYS": settings.endpoint_keyring(),
    }


def _lines(at: Session, setting: str, ring: Keyring) -> Iterator[_Line]:
    """Tell of the keys of a setting in their order, then of those that it lacks."""
    kinds = [kind for kind in (*KINDS, FINGERPRINTS) if kind.setting == setting]
    counts = {kind.name: count_by_key(at.conn, kind) for kind in kinds}
    used = {key for of_kind in counts.values() for key in of_kind}
    lacking = sorted(key for key in used if key is not None and key not in ring.key_ids)
    for key in (*ring.key_ids, *lacking):
        role: Literal["seals", "opens", "missing"] = "missing" if key in lacking else "opens"
        if key == ring.key_ids[0]:
            role = "seals"
        yield _Line(setting, key, role, _wraps(counts, key))
    if None in used:
        yield _Line(setting, "?", "damaged", _wraps(counts, None))


def _wraps(counts: Mapping[str, Counter[str | None]], key: str | None) -> dict[str, int]:
    return {what: of_kind[key] for what, of_kind in counts.items() if of_kind[key]}


def _worded(wraps: Mapping[str, int]) -> list[str]:
    return [f"{count} {what}" for what, count in wraps.items()]


def _rotate(at: Session, ring: Keyring, kind: Kind, failures: Counter[str]) -> int:
    """Wrap one kind anew and add to the failures; give how many were done."""
    counts = count_by_key(at.conn, kind)
    total = counts.total() - counts[ring.key_ids[0]]
    if not total:
        return 0
    done = seen = 0
    with progress(f"Wrapping {kind.name} anew", total) as show:
        for batch in rewrap(at.conn, ring, kind):
            failures.update(batch.failures)
            done += batch.done
            seen += batch.done + batch.failures.total()
            show(seen)
    return done
