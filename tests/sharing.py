"""Divides the rewriting of test files' assertions among the processes that collect the same tests.

Each process needs every file. In a fresh clone, each process would rewrite all files at the same time, which takes six
seconds of CPU. So each process begins with its own share, and then finds the other shares in the cache.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def import_share(config: pytest.Config) -> None:
    """Import this process's share of the test files to collect; without other processes, import all."""
    process = getattr(config, "workerinput", None)
    if process is None:
        return
    number, count = int(process["workerid"].removeprefix("gw")), process["workercount"]
    for module in share(config.args, number, count):
        # Errors of a module, including skips, are reported at its collection, which imports it again.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(module)


def share(arguments: list[str], number: int, count: int) -> list[str]:
    """One process's modules: the files below these arguments are distributed by size, the largest first."""
    paths = [ROOT / argument.partition("::")[0] for argument in arguments]
    files = {file for path in paths for file in ([path] if path.is_file() else path.rglob("test_*.py"))}
    dealt = sorted(files, key=lambda file: (-file.stat().st_size, file))[number::count]
    return [os.fspath(file.relative_to(ROOT).with_suffix("")).replace(os.sep, ".") for file in dealt]
