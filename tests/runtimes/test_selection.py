"""Which tests run where: everything on three runtimes, a part on CRI-O, and what somebody asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtimes import selection

CHOSEN = next(iter(selection.ON_CRIO))
TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("test", "runtime", "asked_for", "runs"),
    [
        ("tests/a/test_b.py::test_c[embedded]", "embedded", "", True),
        ("tests/a/test_b.py::test_c[crio]", "crio", "", False),
        ("tests/a/test_b.py::test_c[crio]", "crio", "crio", True),
        ("tests/a/test_b.py::test_c[crio]", "crio", "embedded, crio", True),
        ("tests/a/test_b.py::test_c[embedded]", "embedded", "crio", False),
        (f"tests/{CHOSEN}::test_of_another_name[crio]", "crio", "", not selection.ON_CRIO[CHOSEN]),
    ],
)
def test_everything_runs_on_three_runtimes_and_a_part_on_crio(
    test: str, runtime: str, asked_for: str, runs: bool
) -> None:
    assert selection.runs(test, runtime, asked_for=asked_for) is runs


@pytest.mark.parametrize("file", selection.ON_CRIO)
def test_what_runs_on_crio_is_there(file: str) -> None:
    text = (TESTS / file).read_text()
    assert [name for name in selection.ON_CRIO[file] if f"def {name}(" not in text] == []
