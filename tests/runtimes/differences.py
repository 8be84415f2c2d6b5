"""Where the embedded runtime differs from containerd: each difference in a sentence, with the tests that cannot hold.

A test is skipped on the embedded runtime only by being named here; `docs/runtimes.md` shows the table, and a test keeps
the two the same.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "runtimes.md"
BEGIN, END = "<!-- differences: begin -->", "<!-- differences: end -->"
"""What stands between these lines of the document is rendered from `DIFFERENCES`."""


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same, and patterns (as a shell's, against the end of a test's id) of tests about it."""

    what: str
    sentence: str
    tests: tuple[str, ...] = ()


DIFFERENCES: tuple[Difference, ...] = ()


def difference_of(test: str) -> Difference | None:
    """The difference that a test's id, with its parameters, is about; None where it holds on both."""
    # Brackets mean themselves.
    plain = test.replace("[", "(").replace("]", ")")
    for difference in DIFFERENCES:
        if any(
            fnmatch.fnmatchcase(plain, f"*{pattern.replace('[', '(').replace(']', ')')}")
            for pattern in difference.tests
        ):
            return difference
    return None


def on_embedded(test: pytest.Function) -> bool:
    """Say whether a test that was collected runs on the embedded runtime, among others."""
    return hasattr(test, "callspec") and test.callspec.params.get("runtime") == "embedded"


def rendered(differences: Iterable[Difference] = DIFFERENCES) -> str:
    """The table as Markdown."""
    rows = [f"| {each.what} | {each.sentence} | {len(each.tests) or ''} |" for each in differences]
    return "\n".join(["| | on the embedded runtime | tests |", "|---|---|---|", *rows])
