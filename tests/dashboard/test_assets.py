"""Static files: unchanged where they are others', small where they are ours, kept by browsers."""

from __future__ import annotations

import gzip
import hashlib
import tomllib
from pathlib import Path

import pytest
from flask import Flask

from dashboard.assets import Assets
from fencepost.resources import resource

STATIC = resource("static")
VENDORED = tomllib.loads((STATIC / "vendor" / "VENDOR.toml").read_text())["file"]
BUDGETS = {
    "app.css": (24_000, 6_000),
    "app.js": (12_000, 4_000),
    "charts.css": (9_000, 2_800),
    "delivery.css": (8_000, 2_500),
    "delivery.js": (2_000, 1_000),
    "follow.js": (2_000, 1_000),
    "live.js": (6_000, 2_000),
    "regions.js": (2_000, 1_000),
    "selection.css": (2_000, 1_000),
    "selection.js": (5_000, 2_000),
}


@pytest.mark.parametrize("entry", VENDORED, ids=lambda entry: entry["name"])
def test_a_vendored_file_is_what_it_was(entry: dict[str, str]) -> None:
    content = (STATIC / "vendor" / entry["name"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == entry["sha256"]
    assert (STATIC / "vendor" / entry["licence_file"]).read_text()


def test_every_vendored_file_is_declared() -> None:
    found = {path.name for path in (STATIC / "vendor").iterdir() if path.suffix in {".js", ".css"}}
    assert found == {entry["name"] for entry in VENDORED}


@pytest.mark.parametrize("name", BUDGETS)
def test_our_files_stay_small(name: str) -> None:
    content, (plain, packed) = (STATIC / name).read_bytes(), BUDGETS[name]
    assert len(content) <= plain
    assert len(gzip.compress(content, 9)) <= packed


def test_a_file_is_served_under_its_hash_for_good(app: Flask) -> None:
    client = app.test_client()
    with app.test_request_context():
        url = app.jinja_env.globals["asset"]("app.css")  # type: ignore[operator]
    with client.get(url) as answer:
        assert answer.data == (STATIC / "app.css").read_bytes()
        assert answer.mimetype == "text/css"
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize(
    "path",
    ["app.css", "app.000000000000.css", "../app.css", "vendor/VENDOR.toml", "vendor/", "%2e%2e/x"],
)
def test_nothing_else_is_served(app: Flask, path: str) -> None:
    assert app.test_client().get(f"/static/{path}").status_code == 404


def test_a_changed_file_has_another_name(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("1")
    before = Assets(tmp_path)
    (tmp_path / "a.js").write_text("2")
    after = Assets(tmp_path)
    assert before.names["a.js"] != after.names["a.js"]
    assert before.build != after.build
    assert after.find(before.names["a.js"]) is None
