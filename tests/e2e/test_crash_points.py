"""A worker killed at every boundary between two calls to the runtime, in each stretch of a pod's life.

How, and with what pod, says `bench/crash_points.py`; docs/crash-points.md shows every one.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from bench.crash_points import DOCUMENT, INTRODUCTION, LIVES, Row, run
from bench.on_runtimes import title
from tests.e2e.faults_support import FaultyNode


# On containerd 1.6 the document is made, but no more than that: it takes two minutes on each runtime.
@pytest.mark.parametrize("runtime", ["embedded", "containerd24"], indirect=True)
async def test_nothing_is_lost_or_doubled_wherever_the_worker_is_killed(node: FaultyNode, tmp_path: Path) -> None:
    await asyncio.to_thread(tmp_path.chmod, 0o755)
    rows = await run(node, tmp_path / "out")
    assert [row for row in rows if row.duplicates or row.lost] == []
    assert boundaries(rows) == documented(title(node.runtime)), "run `python -m bench.crash_points`"


def boundaries(rows: list[Row]) -> list[tuple[str, list[str]]]:
    """The calls at which workers died in each life; which of two that are made at once is ahead is left to chance."""
    return [(life.name, sorted(row.boundary.call for row in rows if row.life == life.name)) for life in LIVES]


def documented(runtime: str) -> list[tuple[str, list[str]]]:
    """Those that the document has for a runtime."""
    part = DOCUMENT.read_text().partition(f"\n## {runtime}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| (\w+) \| \d+\. (?:before|after) (\w+)", part, re.MULTILINE)
    return [(life.name, sorted(call for name, call in found if name == life.name)) for life in LIVES]


def test_the_document_has_every_life_without_a_loss() -> None:
    text = DOCUMENT.read_text()
    assert text.startswith(INTRODUCTION), "change both: the next measurement writes the page anew"
    summaries = re.findall(r"^(\d+) boundaries, duplicates (\d+), lost (\d+)\.$", text, re.MULTILINE)
    assert len(summaries) == 3
    assert all(int(count) > 40 and (double, lost) == ("0", "0") for count, double, lost in summaries)
