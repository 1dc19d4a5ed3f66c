"""Where the text of the settings comes from: the environment, a file, and ``NAME_FILE``."""

from __future__ import annotations

import difflib
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

PREFIX: Final = "FENCEPOST_"
CONFIG: Final = "FENCEPOST_CONFIG"
UNREADABLE: Final = "\0"
"""Stands for the text of a file that cannot be read: set, and its fault is told already."""
_FILE: Final = "_FILE"


def gather(
    environ: Mapping[str, str], *, names: Collection[str], secrets: Collection[str]
) -> tuple[dict[str, str], list[str]]:
    """Collect the text of every setting that is set.

    The environment wins over the file that ``FENCEPOST_CONFIG`` names, setting by setting.

    Args:
        environ: the environment; what does not begin with ``FENCEPOST_`` is ignored.
        names: all settings.
        secrets: those that may also be given as ``NAME_FILE``.

    Returns:
        text by name, and the faults found on the way, one line each.
    """
    faults: list[str] = []
    known = {*names, *(name + _FILE for name in secrets)}
    texts: dict[str, str] = {}
    config = environ.get(CONFIG)
    if config is not None:
        found = _read_config(config, faults)
        if any(name in found for name in secrets) and _is_open_to_others(Path(config)):
            faults.append(f"{CONFIG}: {config} holds secrets and others can read it: chmod 600 it")
        texts.update(_resolve(found, known, secrets, faults, where=f"{config}: "))
    ours = {
        name: text for name, text in environ.items() if name.startswith(PREFIX) and name != CONFIG
    }
    texts.update(_resolve(ours, known, secrets, faults, where=""))
    return texts, faults


def _resolve(
    found: Mapping[str, str],
    known: Collection[str],
    secrets: Collection[str],
    faults: list[str],
    *,
    where: str,
) -> dict[str, str]:
    """Replace each ``NAME_FILE`` of one source by what the file holds."""
    texts: dict[str, str] = {}
    for name, text in sorted(found.items()):
        if name not in known:
            faults.append(f"{where}{name}: there is no such setting{_suggestion(name, known)}")
            continue
        target = name.removesuffix(_FILE)
        if target == name or target not in secrets:
            texts[name] = text
        elif target in found:
            faults.append(f"{where}{name}: {target} is set as well; keep one of the two")
        else:
            texts[target] = _read_secret(text, f"{where}{name}", faults)
    return texts


def _suggestion(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; is {close[0]} meant?" if close else ""


def _read_config(path: str, faults: list[str]) -> dict[str, str]:
    """Read ``KEY=VALUE`` lines, with ``#`` or ``;`` comments and optional quotes."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        faults.append(f"{CONFIG}: cannot read {path!r}: {_reason(error)}")
        return {}
    found: dict[str, str] = {}
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        name, equals, value = line.partition("=")
        name, value = name.rstrip(), value.lstrip()
        if not equals or not name.startswith(PREFIX) or line.endswith("\\"):
            faults.append(f"{path}:{number}: expected one whole FENCEPOST_NAME=value")
        elif name == CONFIG:
            faults.append(f"{path}:{number}: one settings file cannot name another")
        elif name in found:
            faults.append(f"{path}:{number}: {name} is set twice")
        else:
            found[name] = _unquote(value)
    return found


def _unquote(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _read_secret(path: str, name: str, faults: list[str]) -> str:
    """Read a secret's file, without the line end; nothing of it reaches a message."""
    try:
        if _is_open_to_others(Path(path)):
            faults.append(f"{name}: others can read {path}: chmod 600 it")
        return Path(path).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as error:
        faults.append(f"{name}: cannot read {path!r}: {_reason(error)}")
        return UNREADABLE


def _is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IRWXO)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "it is not UTF-8 text"
