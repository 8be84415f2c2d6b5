"""Every row of docs/kubelet-rows.md has a test, and every row that a test names exists.

Holds: Decisions are the kubelet's.
"""

from __future__ import annotations

import re

from tests.kubelet_rows import DOCUMENT, ROOT, holders, rows, written


def test_the_document_lists_the_tests_of_each_row() -> None:
    assert written(DOCUMENT.read_text()) == DOCUMENT.read_text()


def test_every_row_has_a_test_and_every_row_named_by_a_test_exists() -> None:
    promised = rows(DOCUMENT.read_text())
    assert sorted(promised) == sorted(holders())
    assert [number for number, (promise, _) in promised.items() if not promise] == []


def test_every_change_of_1_37_has_tests_that_exist() -> None:
    table = DOCUMENT.read_text().partition("| change in 1.37 |")[2].splitlines()[2:]
    assert table
    for line in table:
        named = re.findall(r"\[`([\w/]+\.py)::(\w+)`\]", line)
        assert named, line
        for path, test in named:
            assert f"def {test}(" in (ROOT / "tests" / path).read_text(), f"{path}::{test}"
