"""docs/security.md names tests that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [line for line in (ROOT / "docs" / "security.md").read_text().splitlines() if line.startswith("|")]


@pytest.mark.parametrize("row", [row for row in ROWS if not re.match(r"\|[-| ]+\||\| what was sent", row)])
def test_each_attack_has_a_test(row: str) -> None:
    named = re.findall(r"`(tests/[\w./]+)`", row.rstrip("| ").rpartition("|")[2])
    assert named, row
    assert [path for path in named if not (ROOT / path).exists()] == []
