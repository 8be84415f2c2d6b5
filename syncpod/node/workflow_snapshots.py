"""Snapshots: the last state of each pod's workflow and of the node's own. A pod's snapshot lies next to its record.

A run whose history cannot be replayed is replaced by one that starts from the snapshot. Snapshots have references to
ConfigMaps and Secrets, never their content.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from syncpod.kernel.atomic_file import replace_file
from syncpod.node.recorded_events import NODE_SNAPSHOT_NAME
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory, pods_directory

SNAPSHOT_NAME = "workflow.json"
"""The name of the snapshot's file in the pod's directory."""


class WorkflowSnapshot(BaseModel):
    """The state of one run at the end of one of its tasks."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    workflow_id: str
    run_id: str
    history_length: int
    """Number of the newest event in the run's history that is part of the state."""
    at: datetime
    """The workflow's time at the end of the task."""
    next_input: dict[str, Any]
    """The input of a run that continues from this state."""


def write_snapshot(node: NodeContext, uid: str, snapshot: WorkflowSnapshot) -> bool:
    """Replace a pod's snapshot atomically, mode 0600; return False if the pod has no directory, yet or any more.

    `uid` is "" for the snapshot of the node's own workflow. Snapshots are not synced to disk: a power cut may lose the
    newest one. Blocks. Raises OSError, UnsafeName.
    """
    path = pod_directory(node, uid) / SNAPSHOT_NAME if uid else node.state_dir / NODE_SNAPSHOT_NAME
    # `json` encodes this, since pydantic would check the input's thousands of values once more.
    text = json.dumps(
        {**snapshot.model_dump(mode="json", exclude={"next_input"}), "next_input": snapshot.next_input},
        ensure_ascii=False,
        separators=(",", ":"),
    )
    try:
        replace_file(path, text, durable=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def find_snapshot(node: NodeContext, workflow_id: str) -> WorkflowSnapshot | None:
    """Return the newest snapshot of a workflow; None if there is no readable one. Reads all. Blocks. Raises OSError."""
    paths = (node.state_dir / NODE_SNAPSHOT_NAME, *pods_directory(node).glob(f"*/{SNAPSHOT_NAME}"))
    found = map(_read, paths)
    ours = [each for each in found if each is not None and each.workflow_id == workflow_id]
    return max(ours, key=lambda each: each.at, default=None)


def forget_node_snapshot(state_dir: Path) -> None:
    """Remove the snapshot of the node's own workflow, which is about pods that have ended. Raises OSError."""
    (state_dir / NODE_SNAPSHOT_NAME).unlink(missing_ok=True)


def _read(path: Path) -> WorkflowSnapshot | None:
    try:
        return WorkflowSnapshot.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
