"""A step that ends an earlier pod of the same name belongs to the current pod.

Holds: The run of a deleted pod ends once nothing of the pod runs, and the node removes the rest.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from activities.node.context import Node
from activities.pods.earlier_lives import end_earlier_lives, sandboxes_of_name
from activities.step_attempt import Interrupted, StepAttempt
from syncpod.cri.port import SandboxSummary
from syncpod.lifecycle.observed import ObservedPod, ObservedSandbox
from syncpod.messages.identity import PodRef
from syncpod.messages.steps import StepInput
from syncpod.translation.context import NodeContext
from syncpod.translation.names import POD_UID_LABEL

OURS = PodRef(namespace="default", name="web", uid="later")


async def test_ending_an_earlier_pod_stops_once_a_newer_step_has_arrived(tmp_path: Path) -> None:
    """It arrives while the earlier pod is listed: it finds its own work as it was."""
    stopped: list[str] = []

    async def listed(**_: Any) -> tuple[SandboxSummary, ...]:
        labels = {POD_UID_LABEL: "earlier"}
        return (SandboxSummary("s", 0, "earlier", "web", "default", "SANDBOX_READY", None, labels, {}, ""),)

    async def read(uid: str, *, made: object = None) -> ObservedPod:
        attempt.supersede()
        return ObservedPod(uid=uid, sandboxes=(ObservedSandbox(id="s", ready=True),))

    async def stop(id_: str) -> None:
        stopped.append(id_)

    node = SimpleNamespace(
        cri=SimpleNamespace(list_pod_sandboxes=listed, stop_pod_sandbox=stop),
        reader=SimpleNamespace(read=read),
        context=NodeContext(name="n", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster=""),
        views=SimpleNamespace(before=lambda *_: None),
    )
    attempt = StepAttempt(cast(Node, node), StepInput(ref=OURS), number=1)
    with pytest.raises(Interrupted):
        await end_earlier_lives(attempt, await sandboxes_of_name(attempt), grace_seconds=1)
    assert (stopped, attempt.ref) == ([], OURS)
