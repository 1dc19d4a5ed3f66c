"""The blueprint that every route of the API belongs to."""

from __future__ import annotations

from typing import Final

from flask import Blueprint

from dashboard.api.handlers import install
from dashboard.api.parameters import refuse_unknown

blueprint: Final = Blueprint("api", __name__, url_prefix="/api/v1")

install(blueprint)
blueprint.before_request(refuse_unknown)
