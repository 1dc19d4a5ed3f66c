"""That every promise about the pages has a test, whichever of them a run selects."""

from __future__ import annotations

import re
from pathlib import Path

from checks import CHECKS

MARK = re.compile(r"^(?:@|pytestmark = )pytest\.mark\.check\((\d+)\)$", re.MULTILINE)


def test_every_check_has_a_test_and_every_test_a_known_check() -> None:
    sources = Path(__file__).parent.glob("test_*.py")
    marked = {int(number) for source in sources for number in MARK.findall(source.read_text())}
    assert marked == set(CHECKS)
