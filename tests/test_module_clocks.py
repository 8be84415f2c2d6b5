"""No test compares the time at which its module was imported with the time at which it runs.

A run of all tests imports every module first, and a slow machine comes to the last tests more than an hour later.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLOCKS = {"now", "utcnow", "today", "time", "time_ns", "monotonic"}

AT_ANY_AGE = {
    "tests/agent/test_orphans.py",
    "tests/cli/test_explain.py",
    "tests/cli/test_fleet_answers.py",
    "tests/cli/test_fleet_get.py",
    "tests/cli/test_fleet_waiting_pods.py",
    "tests/cli/test_other_workers.py",
    "tests/durations.py",
    "tests/kubernetes/test_port_certificates.py",
    "tests/worker/test_sync_spans.py",
}
"""Modules whose tests pass as well if that time is two hours earlier, which was tried."""


def test_a_module_that_reads_the_clock_at_its_import_is_listed() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if any(_reads_the_clock(each) for each in ast.parse(path.read_text()).body)
    }
    assert found == AT_ANY_AGE


def _reads_the_clock(statement: ast.stmt) -> bool:
    """Whether a statement of a module reads a clock at the import. Bodies of functions and classes do not count."""
    parts: list[ast.AST] = [statement]
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        parts = [*statement.decorator_list]
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in CLOCKS
        for part in parts
        for each in ast.walk(part)
    )
