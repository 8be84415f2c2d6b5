"""A pod as its workflow published it last, from its snapshot on this machine: readable without a server or a worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from syncpod.node.workflow_snapshots import SNAPSHOT_NAME


def recorded_pod(state_dir: Path, workflow_id: str, uid: str) -> dict[str, Any] | None:
    """Return the Pod with its last status as JSON; None if this machine has no record of it. Blocks."""
    if not uid or "/" in uid or uid.startswith("."):
        return None
    try:
        said = json.loads((state_dir / "pods" / uid / SNAPSHOT_NAME).read_bytes())
        snapshot = said["next_input"]["snapshot"]
        if said["workflow_id"] != workflow_id or not isinstance(snapshot["pod"]["metadata"], dict):
            return None
        return {**snapshot["pod"], "status": dict(snapshot["status"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None  # it is being made anew, or of a version that writes it otherwise
