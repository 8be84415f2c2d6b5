from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from syncpod.node import tombstones
from syncpod.node.tombstones import (
    KEPT_SECONDS,
    prune_tombstones,
    remove_emptied_directories,
    tombstone_at,
    write_tombstone,
)
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, pods_directory


@pytest.fixture
def node(tmp_path: Path) -> NodeContext:
    return NodeContext(name="n1", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster="c")


def test_a_deletion_is_recorded_for_one_incarnation_of_a_pod_only(node: NodeContext) -> None:
    write_tombstone(node, "u1", "a")
    write_tombstone(node, "u1", "a")
    assert tombstone_at(node, "u1", "a") is not None
    assert tombstone_at(node, "u1", "b") is None and tombstone_at(node, "u2", "a") is None
    assert (node.state_dir / "deleted").stat().st_mode & 0o777 == 0o700
    with pytest.raises(UnsafeName):
        write_tombstone(node, "../u1", "a")


def test_old_and_excess_deletion_records_are_dropped(node: NodeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prune_tombstones(node) == 0
    monkeypatch.setattr(tombstones, "KEPT_PODS", 3)
    now = time.time()
    for number in range(5):
        write_tombstone(node, f"u{number}", "a")
        age = KEPT_SECONDS + 10 if number == 4 else number
        os.utime(node.state_dir / "deleted" / f"u{number}.a", (now - age, now - age))
    assert prune_tombstones(node) == 2
    assert [number for number in range(5) if tombstone_at(node, f"u{number}", "a")] == [0, 1, 2]


def test_the_empty_directory_of_a_pod_that_is_over_is_removed(node: NodeContext) -> None:
    """A worker was killed between the removal of the pod's record and that of its directory."""
    assert remove_emptied_directories(node) == 0
    for uid in ("over", "begun-again", "a-kubelets"):
        (pods_directory(node) / uid).mkdir(parents=True)
    (pods_directory(node) / "begun-again" / "pod.json").touch()
    write_tombstone(node, "over", "a")
    write_tombstone(node, "begun-again", "a")
    assert remove_emptied_directories(node) == 1
    assert sorted(each.name for each in pods_directory(node).iterdir()) == ["a-kubelets", "begun-again"]
