"""Imports inside functions: only pages have them, for the work of their command, and each saves time until it runs."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = Path("syncpod/cli/commands")
ELSEWHERE = {
    "syncpod/cli/main.py": "Ctrl-C is silenced before anything else is imported, and completion needs no parser",
    "syncpod/cli/commands/completion_candidates.py": "a fleet's server is asked only for names of the fleet",
    "syncpod/cli/program.py": "the version is a command's page, and the tree imports no page",
    "syncpod/cli/remote_command.py": "its slow imports run at the ordinary priority of the command",
    "syncpod/cli/kubelet/program.py": "its ports listen before the slow imports",
    "syncpod/cli/node_api.py": "Temporal is asked only if no worker serves",
    "syncpod/cli/orphan_notes.py": "the runtime is asked only if no worker serves",
    "syncpod/cli/view/live_table.py": "rich, only for a watch on a terminal",
    "syncpod/cli/view/progress.py": "rich, only for a wait on a terminal",
    "syncpod/cli/view/documents.py": "yaml, only for that output",
    "syncpod/cli/view/sorting.py": "the models of pods, only for --sort-by",
}
"""Modules that are no pages and import late, and why."""
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


def test_only_pages_import_late() -> None:
    """A page's public functions are its commands; its private ones only read and check arguments."""
    late_ones = {
        f"{path}: {function.name}"
        for path in COMMAND
        for function in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and not (path.parent == PAGES and not function.name.startswith("_"))
        and any(isinstance(each, ast.Import | ast.ImportFrom) for each in ast.walk(function))
    }
    assert {each for each in late_ones if each.partition(":")[0] not in ELSEWHERE} == set()
    assert {each.partition(":")[0] for each in late_ones} == set(ELSEWHERE), "each reason is needed"


def test_a_late_import_is_of_a_module_that_would_not_be_loaded_otherwise() -> None:
    useless = [
        f"{path}:{each.lineno}: {ast.unparse(each)}"
        for path in COMMAND
        for each in late(ast.parse((ROOT / path).read_text()))
        if named(each) <= loaded(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    ]
    assert useless == []
