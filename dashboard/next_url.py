"""Where a login leads: back to the page that asked for it, and never to another site."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from flask import request, url_for

HOME: Final = "/overview"
_HIDDEN: Final = re.compile(r"[\x00-\x20\x7f]")


def safe_next(wanted: str | None) -> str:
    """Give a path of this site to go to; anything doubtful leads to the overview.

    A check of the host alone is not enough: ``////evil.example`` has none, and
    Werkzeug sends it on as ``//evil.example``.
    """
    if wanted is None or not wanted.startswith("/") or wanted[1:2] in {"/", "\\"}:
        return HOME
    if "\\" in wanted or _HIDDEN.search(wanted):
        return HOME
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return HOME
    return HOME if parts.scheme or parts.netloc else wanted


def login_url() -> str:
    """Give the login page's address that leads back to what is asked for now.

    A region or a form is no place to come back to: then the page that shows it is.
    """
    shown = request.headers.get("HX-Current-URL")
    if shown is not None:
        parts = urlsplit(shown)
        wanted = f"{parts.path}?{parts.query}" if parts.query else parts.path
    elif request.method == "GET":
        wanted = request.full_path.removesuffix("?")
    else:
        wanted = HOME
    found = safe_next(wanted)
    return url_for("session.login", next=None if found == HOME else found)
