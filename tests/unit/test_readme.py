"""The README says what the code does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import readme

ROOT = Path(__file__).resolve().parent.parent.parent


def test_diagram_and_settings_table_are_current() -> None:
    text = readme.README.read_text(encoding="utf-8")
    assert readme.rewritten(text) == text, "run: make docs"


def test_a_part_whose_markers_are_gone_is_told() -> None:
    with pytest.raises(ValueError, match="<!-- states -->"):
        readme.rewritten("nothing here")


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md", ".ci/run"):
        text = (ROOT / document).read_text(encoding="utf-8")
        named = set(re.findall(r"(?:`|^|step |retried )make ([a-z0-9-]+)", text, re.MULTILINE))
        assert named, document
        assert named <= targets, document


def test_make_alone_lists_every_target() -> None:
    listed = subprocess.run(["make", "-C", ROOT], check=True, capture_output=True, text=True).stdout
    for target in ("setup", "demo", "test", "lint"):
        assert f"make {target} " in listed


def test_every_file_that_is_linked_exists() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    links = [
        (document, link)
        for document in documents
        for link in re.findall(r"\]\(([^):#]+)\)", document.read_text(encoding="utf-8"))
    ]
    assert (ROOT / "README.md", "docs/receiving.md") in links
    assert [link for document, link in links if not (document.parent / link).exists()] == []
