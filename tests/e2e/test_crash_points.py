"""A worker is killed at every boundary between two calls to the runtime, in each phase of a pod's life.

`bench/crash_points.py` has the pod and the method; docs/crash-points.md shows every boundary.

Holds: The run of a deleted pod ends once nothing of the pod runs, and the node removes the rest.
Holds: A worker may die between any two calls.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from bench.crash_points import DOCUMENT, INTRODUCTION, LIVES, Life, one_of_each, run
from bench.on_runtimes import title
from qa.fault_points import Boundary, When
from tests.e2e.faults_support import FaultyNode
from tests.runtimes.selection import ALL, asked_for


# On containerd 1.6 and 2.3 this test does not run, since it takes two minutes on each; the document has 1.6 and 2.4.
@pytest.mark.parametrize("runtime", ["embedded", "containerd24"], indirect=True)
async def test_a_worker_kill_at_any_runtime_call_loses_or_doubles_nothing(node: FaultyNode, tmp_path: Path) -> None:
    """Before the first call of each phase, and after each kind of call; with all tests, around every call."""
    await asyncio.to_thread(tmp_path.chmod, 0o755)
    passed: dict[str, list[str]] = {}
    chosen: dict[str, list[str]] = {}

    def choose(life: Life, boundaries: Sequence[Boundary]) -> Sequence[Boundary]:
        deaths = boundaries if asked_for() == ALL else one_of_each(life, boundaries)
        passed[life.name], chosen[life.name] = calls(boundaries), calls(deaths)
        return deaths

    rows = await run(node, tmp_path / "out", choose=choose)
    assert [row for row in rows if row.duplicates or row.lost] == []
    assert passed == documented(title(node.runtime)), "run `python -m bench.crash_points`"
    assert {life.name: calls(row.boundary for row in rows if row.life == life.name) for life in LIVES} == chosen


def calls(boundaries: Iterable[Boundary]) -> list[str]:
    """The calls of boundaries. The order of two concurrent calls does not matter."""
    return sorted(each.call for each in boundaries)


def documented(runtime: str) -> dict[str, list[str]]:
    """The boundaries of a runtime in the document, by phase."""
    part = DOCUMENT.read_text().partition(f"\n## {runtime}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| (\w+) \| \d+\. (?:before|after) (\w+)", part, re.MULTILINE)
    return {life.name: sorted(call for name, call in found if name == life.name) for life in LIVES}


def test_each_kind_of_call_is_interrupted_once_in_each_phase() -> None:
    first, second = (["CreateContainer", "StartContainer"] for _ in range(2))
    moments: tuple[When, ...] = ("before", "after")
    order = [(when, call) for call in (*first, *second) for when in moments]
    passed = [Boundary(number, when, call, "pod", "") for number, (when, call) in enumerate(order, start=1)]
    assert [each.ordinal for each in one_of_each(LIVES[0], passed)] == [1, 6, 8]


def test_the_document_lists_every_scenario_without_a_loss() -> None:
    text = DOCUMENT.read_text()
    assert text.startswith(INTRODUCTION), "change both: the next measurement writes the page anew"
    summaries = re.findall(r"^(\d+) boundaries, duplicates (\d+), lost (\d+)\.$", text, re.MULTILINE)
    assert len(summaries) == 3
    assert all(int(count) > 40 and (double, lost) == ("0", "0") for count, double, lost in summaries)
