"""What a reader likes: kept in cookies, with and without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient

from dashboard.preferences import PREFERENCES
from stage import Stage


def test_what_is_saved_holds_on_every_page(
    viewer: FlaskClient, post: Callable[..., Any], stage: Stage
) -> None:
    stage.deliveries(stage.subscription().id, 30)
    answer = post(viewer, "/settings", theme="dark", times="UTC", shortcuts="off", rows="25")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/settings?saved=1")
    page = viewer.get("/deliveries").text
    assert 'data-theme="dark" data-times="UTC" data-shortcuts="off"' in page
    assert page.count('data-testid="row-') == 25
    assert viewer.get("/deliveries?limit=50").text.count('data-testid="row-') == 30
    assert '<option value="dark" selected>' in viewer.get("/settings").text


def test_the_default_leaves_no_cookie(viewer: FlaskClient, post: Callable[..., Any]) -> None:
    post(viewer, "/settings", theme="dark", rows="100")
    post(viewer, "/settings")
    assert viewer.get_cookie("fencepost_theme") is None
    assert viewer.get_cookie("fencepost_rows") is None
    assert "data-theme" not in viewer.get("/overview").text


@pytest.mark.parametrize("name", sorted(PREFERENCES))
def test_a_value_that_there_is_not(
    name: str, viewer: FlaskClient, post: Callable[..., Any]
) -> None:
    assert post(viewer, "/settings", **{name: "<b>"}).status_code == 422
    viewer.set_cookie(f"fencepost_{name}", "<b>")
    page = viewer.get("/deliveries")
    assert page.status_code == 200
    assert "<b>" not in page.text
