"""The trials of a cluster's node without its API server: their records, their page, and the worker's fault points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qa.cluster_outages import page, record, rights
from qa.cluster_outages.killed_worker import VARIABLE, Points
from qa.cluster_outages.page import TRIALS


def test_the_page_says_what_was_recorded() -> None:
    assert page.DOCUMENT.read_text() == page.rendered()
    assert record.read().keys() <= TRIALS.keys()
    assert all((trial.__doc__ or "").strip() for trial in TRIALS.values())


def test_a_result_replaces_an_earlier_one_of_the_same_trial(tmp_path: Path) -> None:
    path = tmp_path / "record.tsv"
    record.write([record.Result("a", False, "it fell"), record.Result("b", True, "1 s")], path)
    record.write([record.Result("a", True, "2 s")], path)
    assert record.read(path) == {"a": record.Result("a", True, "2 s"), "b": record.Result("b", True, "1 s")}


def test_a_result_of_several_lines_is_kept_in_one(tmp_path: Path) -> None:
    kept = tmp_path / "record.tsv"
    record.write([record.Result("hollow", False, "it failed:\n\tno\tspace\n")], kept)
    assert record.read(kept)["hollow"].numbers == "it failed: no space"


def test_every_request_with_a_nodes_key_has_been_tried() -> None:
    uids = {"mine": "1", "theirs": "2"}
    asked = {each.what: each.is_allowed for each in rights.rights(uids, "3")}
    assert {each.what: each.is_allowed for each in rights.read()} == asked


def test_points_count_while_they_are_armed(tmp_path: Path) -> None:
    points = Points(tmp_path, 0)
    points.passed("before")
    (tmp_path / "armed").touch()
    points.passed("StartContainer")
    assert (tmp_path / "points").read_text() == "1 StartContainer\n"


@pytest.mark.parametrize("number", [1, 2])
def test_a_worker_dies_at_its_point(tmp_path: Path, number: int) -> None:
    (tmp_path / "armed").touch()
    script = f"""
import os
from pathlib import Path
from qa.cluster_outages.killed_worker import Points
points = Points(Path({str(tmp_path)!r}), {number})
points.passed("one")
points.passed("two")
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, env=os.environ | {VARIABLE: str(tmp_path)})
    assert done.returncode == -9
    assert (tmp_path / "points").read_text().splitlines() == ["1 one", "2 two"][:number]
