"""Every case of docs/stopping.md on real runtimes: in which order, with which events and exit codes a pod ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from activities.containers.kill_timeout import LEAST_SECONDS
from bench.stop_cases import CASES, DOCUMENT, INTRODUCTION, run
from tests.e2e.faults_support import FaultyNode

pytestmark = pytest.mark.every_runtime("exit codes and the order of ends are the runtime's")


async def test_pods_end_as_documented(node: FaultyNode, tmp_path: Path) -> None:
    """Row 76, row 77, row 78, row 79, row 80: grace, hook, order, floor, and the events of each."""
    endings = await run(node, CASES, tmp_path)
    for case in CASES:
        ending = endings[case.name]
        everybody = {(reason, name) for reason in ("Killing", "Exited") for name in case.codes}
        assert ending.codes == case.codes, case.name
        # A busy machine may take longer than the ten seconds that each of these kills has; then an event must say so.
        late = {("ExceededGracePeriod", "")} if not case.hangs and ending.seconds >= LEAST_SECONDS else set()
        assert ending.events - late == case.events | everybody, case.name
        assert ending.order == case.order, case.name
        assert ending.phase == ("Failed" if any(case.codes.values()) else "Succeeded"), case.name


def test_the_document_has_every_case() -> None:
    text = DOCUMENT.read_text()
    assert text.startswith(INTRODUCTION), "change both: the next measurement writes the page anew"
    assert [case.name for case in CASES if f"| {case.what} | {case.seconds} s |" not in text] == []
