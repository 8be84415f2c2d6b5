"""docs/invariants.md: each invariant of the program, and the tests that fail if it is broken.

A test names its invariant in its docstring, or in that of its module, with a line `Holds: No signal fails a pod.`; an
import contract in pyproject.toml does so with a comment. `python -m tests.invariants` writes these names into the page.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "invariants.md"
_HOLDS = re.compile(r"^Holds: (.+?)\.?$", re.MULTILINE)
_CONTRACT = re.compile(r'^# Holds: (.+)\.\n\[\[tool\.importlinter\.contracts\]\]\nname = "(.+)"$', re.MULTILINE)
_INVARIANT = re.compile(r"^- \*\*(.+?)\.\*\*")
_TESTS = "  Tests: "


@functools.cache
def holders() -> dict[str, list[str]]:
    """For each invariant, the tests and import contracts that name it, as links in the page."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        for name, docstring in _docstrings(ast.parse(text)) if "Holds: " in text else ():
            for invariant in _HOLDS.findall(docstring):
                file = path.relative_to(ROOT)
                shown = f"{file.relative_to('tests')}::{name}" if name else f"{file.relative_to('tests')}"
                found[invariant].append(f"[`{shown}`](../{file})")
    for invariant, contract in _CONTRACT.findall((ROOT / "pyproject.toml").read_text()):
        found[invariant].append(f"the import contract “{contract}”")
    return found


def invariants(text: str) -> list[str]:
    """The invariants of a page, in its order."""
    return [matched[1] for line in text.splitlines() if (matched := _INVARIANT.match(line))]


def written(text: str) -> str:
    """The page with the current names of the tests."""
    lines: list[str] = []
    awaited: str | None = None
    for line in [*text.splitlines(), ""]:
        if awaited is not None and not (line.startswith("  ") and not line.startswith(_TESTS)):
            lines.append(f"{_TESTS}{', '.join(holders().get(awaited, []))}")
            awaited = None
        if matched := _INVARIANT.match(line):
            awaited = matched[1]
        if not line.startswith(_TESTS):
            lines.append(line)
    return "\n".join(lines)


def _docstrings(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Each docstring with the name of its test, or "" for the module's."""
    yield "", ast.get_docstring(module) or ""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, ast.get_docstring(node) or ""


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
