"""What a template must not hold: what the policy blocks, and what escaping cannot cover."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from flask import Flask

from fencepost.resources import resource

TEMPLATES = sorted(path for path in resource("templates").rglob("*") if path.is_file())
FORBIDDEN = {
    "an inline style": r"<[^>{]*\sstyle=",
    "an inline script": r"<script(?![^>]*\ssrc=)",
    "an inline handler": r"<[^>{]*\son[a-z]+\s*=",
    "a style block": r"<style",
    "hx-on, which needs eval": r"hx-on[:-]",
    "computed values, which need eval": r"hx-(vals|headers|confirm)[^=]*=\s*[\"'](js|javascript):",
    "a trigger filter, which needs eval": r"hx-trigger=[\"'][^\"']*\[",
    "text that is not escaped": r"\|\s*safe\b|Markup\(|autoescape false",
    "a link out of here": r"(href|src)=[\"']https?:",
}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
@pytest.mark.parametrize("what", FORBIDDEN)
def test_a_template_holds_nothing_forbidden(path: Path, what: str) -> None:
    assert not re.search(FORBIDDEN[what], path.read_text(), re.IGNORECASE), what


def test_every_template_is_escaped(app: Flask) -> None:
    """Jinja escapes by the ending of the name."""
    assert {path.suffix for path in TEMPLATES} <= {".html", ".svg"}
    select = app.jinja_env.autoescape
    assert callable(select)
    assert all(select(path.name) for path in TEMPLATES)


def test_every_form_that_posts_has_a_token() -> None:
    for path in TEMPLATES:
        for form in re.findall(r"<form[^>]*method=\"post\".*?</form>", path.read_text(), re.DOTALL):
            assert "ui.token()" in form, path


def test_python_code_of_ours_marks_no_text_as_safe() -> None:
    for path in (Path(__file__).parents[2] / "dashboard").rglob("*.py"):
        assert "Markup" not in path.read_text(), path
