"""The dashboard and the HTTP API."""

from __future__ import annotations

from datetime import timedelta

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from dashboard import (
    assets,
    auth,
    csrf,
    database,
    errors,
    headers,
    navigation,
    views,
)
from dashboard.api.routes import blueprint as api
from dashboard.live import Hub
from dashboard.live_source import DatabaseSource
from dashboard.models import db
from dashboard.runtime import Runtime
from fencepost.resources import resource
from fencepost.settings import Settings

FORM_BYTES = 2 * 1024 * 1024
"""More than any form of ours needs; the API sets its own limits."""


def create_app(settings: Settings, *, streams: int = 40) -> Flask:
    """Make the application. It opens no connection: servers fork after this.

    Args:
        settings: with a database URL, and the keys of events, endpoints and cookies.
        streams: live streams at a time in this process; each one holds a thread.

    Raises:
        SettingsError: a key is missing or unreadable.
        DatabaseUnavailableError: there is no database URL.
    """
    app = Flask(__name__, static_folder=None, template_folder=str(resource("templates")))
    app.config.update(
        SECRET_KEY=settings.secret(),
        TRUSTED_HOSTS=list(settings.trusted_hosts),
        MAX_CONTENT_LENGTH=FORM_BYTES,
        MAX_FORM_MEMORY_SIZE=FORM_BYTES,
        PERMANENT_SESSION_LIFETIME=timedelta(hours=12),
        PROPAGATE_EXCEPTIONS=False,
    )
    app.json.sort_keys = False  # type: ignore[attr-defined]  # objects as the contract lists them
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.url_map.strict_slashes = False
    if settings.proxy_hops:
        hops = settings.proxy_hops
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=hops, x_proto=hops, x_host=hops)  # type: ignore[method-assign]
    database.init_app(app, settings)
    with app.app_context():
        source = DatabaseSource(db.engine)
    app.extensions["fencepost"] = Runtime(
        settings=settings,
        keyring=settings.keyring(),
        endpoint_keyring=settings.endpoint_keyring(),
        secret=settings.secret(),
        hub=Hub(source, limit=streams),
    )
    assets.init_app(app)
    headers.init_app(app)
    errors.init_app(app)
    auth.init_app(app)
    csrf.init_app(app)
    csrf.csrf.exempt(api)  # it takes tokens and ignores cookies
    navigation.init_app(app)
    views.register(app)
    app.register_blueprint(api)
    return app
