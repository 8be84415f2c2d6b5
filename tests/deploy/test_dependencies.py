"""Installed modules import only packages of the declared dependencies."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHIPPED = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
FOR_DEVELOPERS = ROOT / "protos" / "generate.py"
"""A script that runs only in a checkout, with the dependencies of tests and checks."""


def imported(file: Path) -> Iterator[str]:
    """The names of the top-level packages that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def comparable(distribution: str) -> str:
    """A distribution's name in its normalized spelling."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def test_shipped_modules_import_only_declared_dependencies() -> None:
    """A package that only another package requires may disappear with that package's next version."""
    parts = [ROOT / part for part in SHIPPED]
    files = {file for part in parts for file in (part.rglob("*.py") if part.is_dir() else [part])} - {FOR_DEVELOPERS}
    ours = {part.stem for part in parts} | set(sys.stdlib_module_names)
    names = {name for file in files for name in imported(file)} - ours
    extras = PROJECT["project"]["optional-dependencies"].values()
    asked_for = [*PROJECT["project"]["dependencies"], *(each for extra in extras for each in extra)]
    declared = {comparable(re.split("[<>=]", each)[0]) for each in asked_for}
    providers = packages_distributions()
    assert {"grpc", "pydantic", "temporalio"} <= names
    assert {name for name in names if declared.isdisjoint(map(comparable, providers[name]))} == set()
