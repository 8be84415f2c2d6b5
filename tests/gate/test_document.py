"""docs/engineering/attacks.md and the attacks that are tested on a fleet match, row by row."""

from __future__ import annotations

import re
from pathlib import Path

from tests.gate import test_attacks

ROOT = Path(__file__).parents[2]
_, _, PAGE = (ROOT / "docs/engineering/attacks.md").read_text().partition("\n## A stolen node\n")
TABLES = re.findall(r"^\|.*\| test \|\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.M)
ROWS = [row for table in TABLES for row in table.splitlines()]
NAMED = [re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row.rstrip("| ").rpartition("|")[2]) for row in ROWS]


def test_each_row_names_a_test() -> None:
    assert len(TABLES) == 5
    for row, named in zip(ROWS, NAMED, strict=True):
        assert named, row
        for path, name in named:
            assert f"def {name}" in (ROOT / path).read_text(), row


def test_each_attack_has_a_row() -> None:
    tried = {name for name in vars(test_attacks) if name.startswith("test_")}
    assert tried == {name for named in NAMED for path, name in named if path == "tests/gate/test_attacks.py"} - {""}
