"""A server killed before any change on disk leaves a state that the next one can read.

Holds: A container outlives the server that started it, and is found again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runtime import crashes


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The results of one life for each change on disk, killed just before that change."""
    done = subprocess.run(
        [sys.executable, crashes.__file__, str(tmp_path_factory.mktemp("lives"))],
        cwd=Path(__file__).parents[2],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=True,
        timeout=120,
    )
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results


def test_the_next_server_continues_after_a_crash_before_any_change(lives: list[dict[str, Any]]) -> None:
    assert [life for life in lives if life["wrong"]] == []


def test_a_crash_is_tested_before_every_kind_of_change(lives: list[dict[str, Any]]) -> None:
    about = {life["before"].split("/")[0] + " " + life["before"].rpartition("/")[2] for life in lives}
    assert {
        "os.rename sandboxes .record.new",
        "os.rename containers .record.new",
        "os.rename containers .ended.new",
        "os.mkdir containers process",
        "os.remove containers record",
        "os.remove sandboxes record",
    } <= about
