"""Each import inside a function of the command saves time until the function is called; others are at module level."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = sorted(path.relative_to(ROOT) for path in (ROOT / "syncpod" / "cli").rglob("*.py"))


def file_of(module: str) -> Path | None:
    path = ROOT / module.replace(".", "/")
    return next((one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()), None)


def named(statement: ast.stmt) -> set[str]:
    """The modules that an import statement names; for other packages, only the package."""
    if isinstance(statement, ast.Import):
        return {each.name for each in statement.names}
    if not isinstance(statement, ast.ImportFrom) or statement.module is None:
        return set()
    below = {f"{statement.module}.{each.name}" for each in statement.names}
    return {each for each in below if file_of(each)} or {statement.module}


@functools.cache
def imported(module: str) -> frozenset[str]:
    """The modules that one of our modules imports at its own import."""
    path = file_of(module)
    statements = ast.parse(path.read_text()).body if path is not None else []
    return frozenset(each for statement in statements for each in named(statement))


def loaded(module: str) -> set[str]:
    """All modules that are loaded with one of our modules, directly or through other modules of ours."""
    found, left = {module}, [module]
    while left:
        new = imported(left.pop()) - found
        found |= new
        left += new
    return found


def late(tree: ast.Module) -> Iterator[ast.stmt]:
    """The imports inside functions."""
    for outer in ast.walk(tree):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (each for each in ast.walk(outer) if isinstance(each, ast.Import | ast.ImportFrom))


def test_a_late_import_is_of_a_module_that_would_not_be_loaded_otherwise() -> None:
    useless = [
        f"{path}:{each.lineno}: {ast.unparse(each)}"
        for path in COMMAND
        for each in late(ast.parse((ROOT / path).read_text()))
        if named(each) <= loaded(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    ]
    assert useless == []
