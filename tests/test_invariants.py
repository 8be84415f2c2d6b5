"""Every invariant of docs/invariants.md has a test, and every invariant that a test names is on that page."""

from __future__ import annotations

import re

from tests.invariants import DOCUMENT, ROOT, holders, invariants, written


def test_the_page_lists_the_tests_of_each_invariant() -> None:
    assert written(DOCUMENT.read_text()) == DOCUMENT.read_text(), "run `python -m tests.invariants`"


def test_every_invariant_has_a_test_and_every_one_named_by_a_test_is_on_the_page() -> None:
    assert sorted(invariants(DOCUMENT.read_text())) == sorted(holders())


def test_the_invariants_of_architecture_md_are_on_the_page() -> None:
    _, _, chapter = (ROOT / "ARCHITECTURE.md").read_text().partition("\n## Fifteen invariants\n")
    named = re.findall(r"\*\*(.+?)\.\*\*", chapter.partition("\n## ")[0], re.DOTALL)
    assert len(named) == 15
    assert {" ".join(name.split()) for name in named} - set(invariants(DOCUMENT.read_text())) == set()
