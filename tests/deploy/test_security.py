"""docs/security.md names tests that are there."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "docs" / "security.md").read_text().splitlines()
RULE = re.compile(r"\|[-| ]+\|$")
HEADINGS = {heading for heading, below in pairwise(LINES) if RULE.match(below)}
ROWS = [line for line in LINES if line.startswith("|") and not RULE.match(line) and line not in HEADINGS]


@pytest.mark.parametrize("row", ROWS)
def test_each_attack_has_a_test(row: str) -> None:
    named = re.findall(r"`(tests/[\w./]+)`", row.rstrip("| ").rpartition("|")[2])
    assert named, row
    assert [path for path in named if not (ROOT / path).exists()] == []
