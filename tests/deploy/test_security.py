"""docs/threat-model.md and docs/engineering/attacks.md name an existing test in each row of their tables of attacks."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("docs/threat-model.md", "docs/engineering/attacks.md")
TABLE = re.compile(r"^\|.*\| test \|\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)
ROWS = [row for page in PAGES for table in TABLE.findall((ROOT / page).read_text()) for row in table.splitlines()]


@pytest.mark.parametrize("row", ROWS)
def test_each_attack_has_a_test(row: str) -> None:
    named = re.findall(r"`(tests/[\w./]+)", row.rstrip("| ").rpartition("|")[2])
    assert named, row
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_table_of_attacks_has_a_column_of_tests() -> None:
    tables = re.findall(r"^\|.*\|\n\|[-| ]+\|$", (ROOT / PAGES[1]).read_text(), re.MULTILINE)
    assert [table for table in tables if "| test |" not in table] == []
