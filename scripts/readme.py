"""Write the README's generated parts anew: the diagram of states, the table of settings.

``--check`` writes nothing and exits 1 when they are not current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fencepost.settings import as_markdown
from fencepost.states import as_mermaid

README: Final = Path(__file__).resolve().parent.parent / "README.md"

PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "states": lambda: f"```mermaid\n{as_mermaid()}\n```",
    "settings": as_markdown,
}
"""What stands between ``<!-- name -->`` and ``<!-- /name -->``."""


def rewritten(text: str) -> str:
    """Give ``text`` with each part replaced by its source of today.

    Raises:
        ValueError: a part's markers are missing.
    """
    for name, source in PARTS.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        pattern = re.compile(f"(?<={re.escape(begin)}\n).*?(?={re.escape(end)})", re.DOTALL)
        part = f"\n{source()}\n\n"
        text, found = pattern.subn(part.replace("\\", r"\\"), text)
        if found != 1:
            raise ValueError(f"README.md has {found} places between {begin} and {end}, not one")
    return text


def main() -> int:
    """Rewrite the file, or check it."""
    text = README.read_text(encoding="utf-8")
    current = rewritten(text)
    if "--check" in sys.argv[1:]:
        return int(text != current)
    README.write_text(current, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
