"""Headers that every answer carries: what a browser may load, keep and frame."""

from __future__ import annotations

from typing import Final

from flask import Flask, Response, request

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
"""Nothing inline, nothing from elsewhere, and no exception to it."""


def init_app(app: Flask) -> None:
    """Add the headers to every answer, errors included."""
    app.after_request(_protect)


def _protect(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    response.headers["X-Robots-Tag"] = "noindex"
    if request.is_secure:
        # On plain http browsers pass over it, and complain of it on every page.
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        response.headers["Strict-Transport-Security"] = "max-age=31536000"
    # Pages show what only their reader may see. Fragments and static files say otherwise.
    response.headers.setdefault("Cache-Control", "no-store")
    return response
