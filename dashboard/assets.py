"""Static files under names that carry their content's hash, so that browsers keep them for good."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

from flask import Blueprint, Flask, Response, abort, current_app, redirect, send_file, url_for
from werkzeug.wrappers import Response as BaseResponse

from dashboard.roles import public
from fencepost.resources import resource

blueprint = Blueprint("assets", __name__)

_SERVED: Final = frozenset({".css", ".js", ".svg"})
_YEAR: Final = 365 * 86400


class Assets:
    """The static folder, read once.

    Attributes:
        build: changes whenever a file does.
    """

    def __init__(self, folder: Path) -> None:
        self._hashed: dict[str, str] = {}
        self._files: dict[str, Path] = {}
        everything = hashlib.sha256()
        for path in sorted(folder.rglob("*")):
            if path.suffix not in _SERVED:
                continue
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            everything.update(digest.encode())
            name = path.relative_to(folder)
            hashed = str(name.with_name(f"{name.stem}.{digest[:12]}{name.suffix}"))
            self._hashed[str(name)] = hashed
            self._files[hashed] = path
        self.build = everything.hexdigest()[:12]

    @property
    def names(self) -> Mapping[str, str]:
        """Plain name to the name that is served."""
        return MappingProxyType(self._hashed)

    def url(self, name: str) -> str:
        """Give the address of a file; KeyError when there is none."""
        return url_for("assets.file", name=self._hashed[name])

    def find(self, hashed: str) -> Path | None:
        """Give the file of a served name; only what was there at the start can be asked for."""
        return self._files.get(hashed)


def init_app(app: Flask) -> Assets:
    """Serve the files, and let templates ask for their addresses."""
    found = Assets(resource("static"))
    app.extensions["fencepost_assets"] = found
    app.register_blueprint(blueprint)
    app.jinja_env.globals["asset"] = found.url
    return found


@blueprint.get("/static/<path:name>")
@public
def file(name: str) -> Response:
    """Serve a file; its name changes with its content, so it is never asked for again."""
    path = _assets().find(name)
    if path is None:
        abort(404)
    response = send_file(path, max_age=_YEAR, conditional=True)
    response.headers["Cache-Control"] = f"public, max-age={_YEAR}, immutable"
    return response


@blueprint.get("/favicon.ico")
@public
def favicon() -> BaseResponse:
    """Answer browsers that ask without having read the page."""
    return redirect(_assets().url("favicon.svg"))


@blueprint.get("/robots.txt")
@public
def robots() -> Response:
    """Keep crawlers out."""
    return Response("User-agent: *\nDisallow: /\n", mimetype="text/plain")


def _assets() -> Assets:
    return cast("Assets", current_app.extensions["fencepost_assets"])
