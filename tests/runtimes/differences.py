"""Where the embedded runtime differs from containerd: each difference in a sentence, with the tests that cannot hold.

A test of the suite is left out on the embedded runtime only by being named here; `docs/runtimes.md` shows the table.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "runtimes.md"
BEGIN, END = "<!-- differences: begin -->\n", "<!-- differences: end -->\n"
"""What stands between these lines of the document is rendered from `DIFFERENCES`."""


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same.

    The tests about it are named as `file.py::test`, or `file.py::test[...parameters...]` with the shell's `*` in it.
    """

    what: str
    sentence: str
    tests: tuple[str, ...] = ()
    without_root: bool = False
    """Only where the runtime is not root's."""


DIFFERENCES: tuple[Difference, ...] = ()


def apply(items: Iterable[pytest.Item]) -> None:
    """Skip, of the tests collected, those that are listed as different on the embedded runtime and would run on it."""
    for item in items:
        if isinstance(item, pytest.Function) and runs_on_embedded(item):
            difference = difference_of(item.nodeid)
            if difference is not None:
                item.add_marker(pytest.mark.skip(reason=f"{difference.what}: {difference.sentence}"))


def runs_on_embedded(test: pytest.Function) -> bool:
    """Say whether a test that was collected runs on the embedded runtime, being run on several."""
    return hasattr(test, "callspec") and test.callspec.params.get("runtime") == "embedded"


def difference_of(test: str, *, root: bool = os.geteuid() == 0) -> Difference | None:
    """The difference that a test's id, with its parameters, is about; None where it holds on all runtimes."""
    for difference in DIFFERENCES:
        if not (difference.without_root and root) and any(fits(test, pattern) for pattern in difference.tests):
            return difference
    return None


def fits(test: str, pattern: str) -> bool:
    """Say whether a test's id is meant by a pattern; one without parameters means all of them."""
    # Brackets, which the shell would take for a choice of characters, mean themselves.
    test, pattern = (text.translate({ord("["): "(", ord("]"): ")"}) for text in (test, pattern))
    return fnmatch.fnmatchcase(test, f"*/{pattern}") or fnmatch.fnmatchcase(test, f"*/{pattern}(*)")


def rendered(differences: Iterable[Difference] = DIFFERENCES) -> str:
    """The table as Markdown."""
    rows = [
        f"| {each.what}{' (without root)' if each.without_root else ''} | {each.sentence} | {_named(each.tests)} |\n"
        for each in differences
    ]
    return "".join(["| | embedded | tests left out |\n", "|---|---|---|\n", *rows])


def _named(tests: Iterable[str]) -> str:
    return "<br>".join(f"`{test.replace('|', '&#124;')}`" for test in tests) or "–"
