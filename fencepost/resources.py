"""Where the files that are not code lie: in a wheel and in a checkout."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


def resource(name: str) -> Path:
    """Find ``migrations``, ``templates`` or ``static``.

    A wheel carries them inside the packages, a checkout at its top level.

    Raises:
        FileNotFoundError: the installation is not whole.
    """
    for place in (_ROOT / "fencepost" / name, _ROOT / "dashboard" / name, _ROOT / name):
        if place.is_dir():
            return place
    raise FileNotFoundError(f"this installation of Fencepost lacks its {name}/ folder")
