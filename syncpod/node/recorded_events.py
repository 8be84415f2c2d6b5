"""What happened to this machine's node, from the snapshot of its workflow: readable without a server or a worker."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

NODE_SNAPSHOT_NAME: Final = "node-workflow.json"
"""The file name of the snapshot of the node's own workflow, in the state directory."""
START_FIELDS: Final = ("unschedulable", "cordoned_by", "events", "status")
"""The fields of a node's state that outlive its workflow, if somebody has ended that."""


class NodeEvent(NamedTuple):
    """One event of the node, with how often it was seen."""

    message: str
    first: datetime
    last: datetime
    times: int


def recorded_node_events(state_dir: Path) -> list[NodeEvent]:
    """Return the events of the node whose state this is, in the order of their last times; none if there is no record.

    The worker writes the record whenever the node's workflow has changed. Blocks.
    """
    try:
        events = [_event(each) for each in _snapshot(state_dir).get("events", ())]
    except (ValueError, KeyError, TypeError):
        return []  # of a version that writes it otherwise
    return sorted(events, key=lambda each: each.last)


def recorded_cordon(state_dir: Path) -> str | None:
    """Return who had cordoned the node when its record was written, "" if that is not known; None = nobody. Blocks."""
    snapshot = _snapshot(state_dir)
    return str(snapshot.get("cordoned_by", "")) if snapshot.get("unschedulable") is True else None


def recorded_start(state_dir: Path, node: str) -> dict[str, Any]:
    """Return the ended workflow's part for the node's new one: its cordon, its events, its status.

    Empty if there is no record of this node. Blocks.
    """
    snapshot = _snapshot(state_dir)
    return {key: snapshot[key] for key in START_FIELDS if key in snapshot} if snapshot.get("name") == node else {}


def recorded_status(state_dir: Path, run_id: str) -> dict[str, Any]:
    """Return the status that the node's agent told last, and its events, of this run of its workflow alone.

    Empty if the record is missing, or is of another run, perhaps on another server. Blocks.
    """
    snapshot = _snapshot(state_dir, run_id)
    status = snapshot.get("status")
    return {**status, "events": snapshot.get("events", [])} if isinstance(status, dict) else {}


def _snapshot(state_dir: Path, run_id: str = "") -> dict[str, Any]:
    """Return what is recorded of the node's workflow, of one run if it is named.

    Empty if there is no record, or it is being made anew.
    """
    try:
        record = json.loads((state_dir / NODE_SNAPSHOT_NAME).read_bytes())
        snapshot = record["next_input"]["snapshot"] if not run_id or record["run_id"] == run_id else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return snapshot if isinstance(snapshot, dict) else {}


def _event(said: dict[str, object]) -> NodeEvent:
    """Return an event of a snapshot. Raises KeyError, ValueError and TypeError for anything else."""
    first, last = (datetime.fromisoformat(str(said[key])) for key in ("first", "last"))
    rejected = "rejected: " if said.get("reason") == "Rejected" else ""
    return NodeEvent(f"{rejected}{said['message']}", first, last, int(str(said.get("count", 1))))
