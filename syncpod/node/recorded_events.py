"""Reads the node's events, cordon and status from the snapshot of its workflow, without a server or a worker."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from syncpod.journal.records import SERVER_REACHABLE, SERVER_UNREACHABLE

NODE_SNAPSHOT_NAME: Final = "node-workflow.json"
"""The file name of the snapshot of the node's own workflow, in the state directory."""
_OUTAGE: Final = (SERVER_UNREACHABLE[1], SERVER_REACHABLE[1])
START_FIELDS: Final = ("unschedulable", "cordoned_by", "events", "status")
"""The fields of the node's state that a new workflow takes over if the old one was ended."""


class NodeEvent(NamedTuple):
    """One event of the node, with the number of times that it was seen."""

    message: str
    first: datetime
    last: datetime
    times: int


def recorded_node_events(state_dir: Path) -> list[NodeEvent]:
    """Return the node's events, in the order of their last times; [] without a readable record. Blocks.

    Outages of the server are not included: the journal has them itself, even those that still last. The worker writes
    the record whenever the node's workflow has changed.
    """
    try:
        events = [_event(each) for each in _snapshot(state_dir).get("events", ()) if each.get("reason") not in _OUTAGE]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []  # another version wrote the snapshot, in another format
    return sorted(events, key=lambda each: each.last)


def recorded_cordon(state_dir: Path) -> str | None:
    """Return the user who had cordoned the node when its record was written; "" = unknown, None = it was not cordoned.

    Blocks.
    """
    snapshot = _snapshot(state_dir)
    return str(snapshot.get("cordoned_by", "")) if snapshot.get("unschedulable") is True else None


def recorded_start(state_dir: Path, node: str) -> dict[str, Any]:
    """Return the fields of the ended workflow's state with which the node's new workflow starts.

    Empty if there is no record of this node. Blocks.
    """
    snapshot = _snapshot(state_dir)
    return {key: snapshot[key] for key in START_FIELDS if key in snapshot} if snapshot.get("name") == node else {}


def recorded_status(state_dir: Path, run_id: str) -> dict[str, Any]:
    """Return the last status that the node's agent reported to this run of its workflow, with the node's events.

    Empty if the record is missing, or is of another run, perhaps on another server. Blocks.
    """
    snapshot = _snapshot(state_dir, run_id)
    status = snapshot.get("status")
    return {**status, "events": snapshot.get("events", [])} if isinstance(status, dict) else {}


def _snapshot(state_dir: Path, run_id: str = "") -> dict[str, Any]:
    """Return the recorded state of the node's workflow; empty if there is no valid record.

    With `run_id`, empty too if the record is of another run.
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
