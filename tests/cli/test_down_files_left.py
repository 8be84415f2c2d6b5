"""The note of `down` about files that the node has not removed yet: none if it removes everything itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncpod.cli.actions import down
from syncpod.translation.paths import PODS


@pytest.mark.parametrize("everything", [False, True])
def test_files_that_a_purge_removes_are_not_left_to_the_next_up(
    everything: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / PODS / "u1").mkdir(parents=True)
    monkeypatch.setattr(down, "_REMOVAL_SECONDS", 0.0)
    down._let_the_node_remove(tmp_path, everything=everything)
    assert ("the next `up` does it" in capsys.readouterr().err) != everything
