"""docs/kubelet-rows.md: the promised behaviour of the kubelet, row by row, and the tests of each row.

A test names its rows at the beginning of its docstring: `Row 78:`, `Row 53, row 54:`. `python -m tests.kubelet_rows`
writes the last column.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "kubelet-rows.md"
_NAMED = re.compile(r"^Rows? \d+(?: \(ours\))?(?:(?:,| and) (?:row )?\d+)*:")
_ANYWHERE = re.compile(r"\bRows? \d")
"""Matches every text that names a row; most files do not match, and are not parsed."""
_LINE = re.compile(r"^\| (\d+) \| (.*?) \| (?:(.*) )?\|$")


@functools.cache
def holders() -> dict[int, set[str]]:
    """For each row, the files of the tests that name it, relative to the repository."""
    found: dict[int, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        for docstring in _docstrings(ast.parse(text)) if _ANYWHERE.search(text) else ():
            if named := _NAMED.match(docstring):
                for number in re.findall(r"\d+", named[0]):
                    found[int(number)].add(str(path.relative_to(ROOT)))
    return found


def rows(text: str) -> dict[int, tuple[str, str]]:
    """The rows of the document by number: the promise and the tests."""
    return {int(line[1]): (line[2], line[3] or "") for each in text.splitlines() if (line := _LINE.match(each))}


def written(text: str) -> str:
    """The document with its last column from the current tests."""
    found = holders()

    def row(line: str) -> str:
        if (matched := _LINE.match(line)) is None:
            return line
        number, promise, _ = matched.groups()
        tests = (f"[`{path.removeprefix('tests/')}`](../{path})" for path in sorted(found.get(int(number), ())))
        return f"| {number} | {promise} | {', '.join(tests)} |"

    return "".join(f"{row(line)}\n" for line in text.splitlines())


def _docstrings(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            yield ast.get_docstring(node) or ""


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
