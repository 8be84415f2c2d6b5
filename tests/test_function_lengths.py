"""No function of the product exceeds the length limit."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_LINES = 60


def test_no_function_has_more_than_sixty_lines() -> None:
    rooms = (path for room in ("workflows", "activities", "syncpod") for path in (ROOT / room).rglob("*.py"))
    long = [
        f"{path.relative_to(ROOT)}: {each.name} has {lines} lines"
        for path in (*rooms, *ROOT.glob("*.py"))
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (each.end_lineno or each.lineno) - each.lineno + 1) > MOST_LINES
    ]
    assert long == []
