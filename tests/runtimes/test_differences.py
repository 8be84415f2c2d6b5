"""The document shows the differences between runtimes and the tests that run on each; all named tests exist.

Holds: The embedded runtime is a runtime like the others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest
import pytest_asyncio

from tests.runtimes import differences
from tests.runtimes.collected import Collected, collected


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def suite() -> tuple[Collected, ...]:
    """Every test that runs on a runtime."""
    return await collected()


def test_the_document_shows_the_differences() -> None:
    shows({name: differences.rendered(name) for name in differences.DIFFERENCES})


def test_the_document_shows_what_runs_on_every_runtime(suite: tuple[Collected, ...]) -> None:
    shows({"tests on every runtime": differences.on_every_runtime(suite)})


def shows(tables: Mapping[str, str]) -> None:
    """Assert that the document has these tables between their marker lines."""
    text = wanted = differences.DOCUMENT.read_text()
    for name, table in tables.items():
        begin, end = (line.format(name) for line in (differences.BEGIN, differences.END))
        before, _, rest = wanted.partition(begin)
        _, _, after = rest.partition(end)
        wanted = before + begin + table + end + after
    if os.environ.get("SYNCPOD_WRITE_DIFFERENCES"):
        differences.DOCUMENT.write_text(wanted)
    assert text == wanted, "SYNCPOD_WRITE_DIFFERENCES=1 makes this test write it"


def test_every_test_that_is_left_out_exists(suite: tuple[Collected, ...]) -> None:
    for runtime, all_of_it in differences.DIFFERENCES.items():
        tests = [each.test for each in suite if each.runtime == runtime]
        for difference in all_of_it:
            for pattern in difference.tests:
                assert any(differences.fits(test, pattern) for test in tests), pattern


@pytest.mark.parametrize(
    ("test", "pattern", "meant"),
    [
        ("tests/e2e/test_a.py::test_one[embedded]", "test_a.py::test_one", True),
        ("tests/e2e/test_a.py::test_one[embedded-cni-add]", "test_a.py::test_one", True),
        ("tests/e2e/test_a.py::test_one[embedded-cni-add]", "test_a.py::test_one[*cni-add*]", True),
        ("tests/e2e/test_a.py::test_one[embedded-runc-create]", "test_a.py::test_one[*cni-add*]", False),
        ("tests/e2e/test_a.py::test_one_more[embedded]", "test_a.py::test_one", False),
        ("tests/e2e/test_another_test_a.py::test_one", "test_a.py::test_one", False),
    ],
)
def test_a_pattern_without_parameters_matches_every_case_of_a_test(test: str, pattern: str, meant: bool) -> None:
    assert differences.fits(test, pattern) is meant
