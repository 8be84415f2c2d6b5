"""The node's record of a pod's life, by which the next run of its workflow continues that life."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from syncpod.cri.port import CriRuntime, SandboxSummary
from syncpod.node.pod_lives import pod_life
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.node.tombstones import write_tombstone
from syncpod.pod import ObjectMeta, Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.names import INCARNATION_ANNOTATION
from syncpod.translation.paths import pod_directory

POD = Pod(metadata=ObjectMeta(namespace="default", name="web", uid="u1"))


class Runtime:
    """Lists one dead sandbox of the pod."""

    async def list_pod_sandboxes(self, *, labels: Mapping[str, str]) -> tuple[SandboxSummary, ...]:
        annotations = {INCARNATION_ANNOTATION: "life-1"}
        return (
            SandboxSummary("s0", 0, "u1", "web", "default", "SANDBOX_NOTREADY", None, dict(labels), annotations, ""),
        )


@pytest.mark.parametrize("has_record", [True, False], ids=["record", "sandbox"])
async def test_a_life_that_is_over_does_not_go_on_in_the_next_one(tmp_path: Path, has_record: bool) -> None:
    """A static pod, which keeps its UID, may be back before the node has removed the remains of its last life."""
    node = NodeContext(name="n1", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster="c")
    runtime = cast(CriRuntime, Runtime())
    if has_record:
        pod_directory(node, "u1").mkdir(parents=True)
        write_pod_record(node, PodRecord(pod=POD, incarnation="life-1"))
    life = await pod_life(node, runtime, POD)
    assert life is not None and life.incarnation == "life-1"
    write_tombstone(node, "u1", "life-1")
    assert await pod_life(node, runtime, POD) is None
