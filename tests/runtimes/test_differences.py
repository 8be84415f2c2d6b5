"""The list of differences is true: the document shows it, and every test that it names is there."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from tests.runtimes import differences, selection
from tests.runtimes.embedded import ROOT


@pytest.mark.parametrize("runtime", differences.DIFFERENCES)
def test_the_document_shows_the_list_of(runtime: str) -> None:
    text = differences.DOCUMENT.read_text()
    begin, end = (line.format(runtime) for line in (differences.BEGIN, differences.END))
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    wanted = before + begin + differences.rendered(runtime) + end + after
    if os.environ.get("SYNCPOD_WRITE_DIFFERENCES"):
        differences.DOCUMENT.write_text(wanted)
    assert text == wanted, "SYNCPOD_WRITE_DIFFERENCES=1 makes this test write it"


async def test_every_test_that_is_left_out_exists() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests"),
        cwd=ROOT,
        env={**os.environ, "SYNCPOD_RUNTIMES": ",".join(selection.RUNTIMES)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    for runtime, all_of_it in differences.DIFFERENCES.items():
        collected = [line for line in output.decode().splitlines() if runtime in line]
        for difference in all_of_it:
            for pattern in difference.tests:
                assert any(differences.fits(test, pattern) for test in collected), pattern


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
def test_a_pattern_means_a_test_with_all_its_parameters(test: str, pattern: str, meant: bool) -> None:
    assert differences.fits(test, pattern) is meant
