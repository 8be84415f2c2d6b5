"""On real runtimes, pods end with the order, events and exit codes of docs/engineering/stop-cases.md.

Holds: A container that does not die is never forgotten.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from activities.containers.kill_timeout import LEAST_SECONDS
from bench.stop_cases import CASES, DOCUMENT, INTRODUCTION, Case, Ending, run
from tests.e2e.faults_support import FaultyNode

pytestmark = pytest.mark.every_runtime("exit codes and the order of ends are the runtime's")


def late(case: Case, ending: Ending) -> set[tuple[str, str]]:
    """Return the events that are allowed only if a busy machine took longer than a hook's or the kill's grace."""
    late = {("FailedPreStopHook", name) for name in case.codes} if ending.seconds >= case.grace else set()
    if not case.hangs and ending.seconds >= LEAST_SECONDS:
        late.add(("ExceededGracePeriod", ""))
    return late - case.events


async def test_pods_end_as_documented(node: FaultyNode, tmp_path: Path) -> None:
    """Row 76, row 77, row 78, row 79, row 80: grace, hook, order, floor, and the events of each."""
    endings = await run(node, CASES, tmp_path)
    for case in CASES:
        ending = endings[case.name]
        everybody = {(reason, name) for reason in ("Killing", "Exited") for name in case.codes}
        assert ending.codes == case.codes, case.name
        assert ending.events - late(case, ending) == case.events | everybody, case.name
        assert ending.order == case.order, case.name
        assert ending.phase == ("Failed" if any(case.codes.values()) else "Succeeded"), case.name


def test_the_document_has_every_case() -> None:
    text = DOCUMENT.read_text()
    assert text.startswith(INTRODUCTION), "change both: the next measurement writes the page anew"
    assert [case.name for case in CASES if f"| {case.what} | {case.seconds} s |" not in text] == []
