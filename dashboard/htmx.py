"""One URL, two forms: a whole page, or the block of it that htmx asks for."""

from __future__ import annotations

import hashlib
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from flask import Response, current_app, make_response, redirect, render_template, request
from werkzeug.wrappers import Response as BaseResponse

VARY: Final = "HX-Request, HX-Target, HX-History-Restore-Request, Cookie"
"""What decides the form of an answer: a cache must not hand a page a fragment."""


def is_htmx() -> bool:
    """Tell whether htmx asks, and not the browser itself.

    Back and forward restore whole pages, and so do boosted links.
    """
    headers = request.headers
    return (
        headers.get("HX-Request") == "true"
        and "HX-History-Restore-Request" not in headers
        and "HX-Boosted" not in headers
    )


def target() -> str | None:
    """Give the id of the element that the answer will be put into; None: a page is wanted.

    htmx 4 sends ``div#results``.
    """
    if not is_htmx():
        return None
    return unquote(request.headers.get("HX-Target", "").partition("#")[2]) or None


def render(template: str, *, status: int = 200, **context: Any) -> Response:  # noqa: ANN401
    """Render a page, or the block of it that is named like the target.

    Args:
        template: of the page; the target ``div#new-rows`` asks for its block ``new_rows``.
            A target that the page has no block for gets the page.
        status: of the answer.
        context: for the template.
    """
    wanted = (target() or "").replace("-", "_")
    context["in_dialog"] = wanted == "modal_body"
    page = current_app.jinja_env.get_template(template)
    if wanted and wanted in page.blocks:
        response = make_response(_render_block(template, wanted, context), status)
    else:
        response = make_response(render_template(template, **context), status)
    response.headers["Vary"] = VARY
    return response


def render_list(template: str, *, url: str, **context: Any) -> Response:  # noqa: ANN401
    """Render a list, and let the address bar follow what is shown.

    Args:
        template: of the page.
        url: the list's canonical address: defaults dropped, parameters sorted.
        context: for the template.
    """
    response = render(template, **context)
    if is_htmx() and target() != "modal-body" and url != _shown():
        response.headers["HX-Push-Url"] = url
    return response


def render_region(template: str, block: str, *, version: object, **context: Any) -> Response:  # noqa: ANN401
    """Render a region that refreshes itself, unless the browser has this version of it.

    Args:
        template: of the page that the region belongs to.
        block: the region's.
        version: whatever its content depends on; it is compared before anything is rendered.
        context: for the template.
    """
    build = current_app.extensions["fencepost_assets"].build
    tag = hashlib.sha256(f"{build} {version!r}".encode()).hexdigest()[:24]
    if request.if_none_match.contains_weak(tag):
        response = make_response("", 304)
    else:
        response = make_response(_render_block(template, block, context))
    response.set_etag(tag, weak=True)
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["Vary"] = VARY
    return response


def go(url: str) -> BaseResponse:
    """Send the reader to the page that shows what their POST came to."""
    if is_htmx():
        return Response(status=204, headers={"HX-Redirect": url, "Vary": VARY})
    return redirect(url, 303)


def _render_block(template: str, block: str, context: dict[str, Any]) -> str:
    page = current_app.jinja_env.get_template(template)
    values = dict(context)
    current_app.update_template_context(values)
    return "".join(page.blocks[block](page.new_context(values)))


def _shown() -> str:
    shown = urlsplit(request.headers.get("HX-Current-URL", ""))
    return f"{shown.path}?{shown.query}" if shown.query else shown.path
