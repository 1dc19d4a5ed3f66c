"""No other site may make a logged-in browser change anything."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from flask import Flask, Response, request
from flask.sessions import SecureCookieSessionInterface
from flask_wtf.csrf import CSRFError, CSRFProtect
from werkzeug.exceptions import Forbidden

from dashboard.errors import answer

csrf = CSRFProtect()

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN: Final = frozenset({"same-origin", "none"})
SESSION_SECONDS: Final = 12 * 3600


class FormCookie(SecureCookieSessionInterface):
    """The signed cookie that the form token is checked against; it says nothing of the login.

    Behind TLS its name starts with ``__Host-``, which binds it to this host; on plain
    http, which browsers do not let set such a cookie, it has a plain name.
    """

    def get_cookie_name(self, app: Flask) -> str:  # noqa: ARG002  # Flask calls it so
        """Name it after the scheme of the request."""
        return cookie_name("fencepost_form")

    def get_cookie_secure(self, app: Flask) -> bool:  # noqa: ARG002  # likewise
        """Keep it off plain http where there is TLS."""
        return request.is_secure


def cookie_name(name: str) -> str:
    """Give the name of one of our cookies for the scheme of this request."""
    return f"__Host-{name}" if request.is_secure else name


def init_app(app: Flask) -> None:
    """Check the origin and then the token of every request that changes something."""
    app.session_interface = FormCookie()
    app.config.update(
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_HTTPONLY=True,
        WTF_CSRF_TIME_LIMIT=SESSION_SECONDS,  # a login lasts no longer
        WTF_CSRF_SSL_STRICT=False,  # the origin check below is stricter and needs no Referer
    )
    app.before_request(refuse_foreign_origins)
    csrf.init_app(app)
    app.register_error_handler(CSRFError, _refuse_token)


def refuse_foreign_origins() -> None:
    """Refuse a change that a page of another site asks for.

    Browsers say where a request comes from; what says nothing is no browser, has
    no cookie of ours, and needs the token all the same.

    Raises:
        Forbidden: the request comes from elsewhere, or hides where it comes from.
    """
    if request.method in _SAFE_METHODS or request.blueprint == "api":
        return  # the API takes tokens and ignores cookies: there is nothing to abuse
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if site is not None and site not in _OWN:
        raise Forbidden("This came from another site.")
    if origin is not None and not _is_ours(origin):
        raise Forbidden("This came from another site.")


def _is_ours(origin: str) -> bool:
    found, ours = urlsplit(origin), urlsplit(request.host_url)
    return (found.scheme, found.netloc) == (ours.scheme, ours.netloc)


def _refuse_token(_error: CSRFError) -> Response:
    return answer(403, "This form is out of date. Load the page again and repeat what you did.")
