"""Reads the last published state of a pod's workflow from files on this machine, without a server or a worker."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from syncpod.node.pod_records import RECORD_NAME
from syncpod.node.workflow_snapshots import SNAPSHOT_NAME


def recorded_pod(state_dir: Path, workflow_id: str, uid: str) -> dict[str, Any] | None:
    """Return the Pod with its last status as JSON; None if this machine has no record of it. Blocks.

    The status is in the snapshot, which is written a moment after the pod's record; until then the status is empty.
    """
    if not _is_name(uid):
        return None
    return _from_snapshot(state_dir, workflow_id, uid) or _from_record(state_dir, workflow_id, uid)


def recorded_creation(state_dir: Path, workflow_id: str, uid: str) -> str:
    """Return a pod's creationTimestamp from this machine's record of the pod; "" if it has none. Blocks."""
    if not _is_name(uid) or (pod := _from_record(state_dir, workflow_id, uid)) is None:
        return ""
    created = pod["metadata"].get("creationTimestamp")
    return created if isinstance(created, str) else ""


def _is_name(uid: str) -> bool:
    """Return whether a UID, which comes from the server, is safe as a file's name."""
    return bool(uid) and "/" not in uid and not uid.startswith(".")


def bare_pod(namespace: str, name: str, uid: str, containers: Iterable[str]) -> dict[str, Any]:
    """Return a Pod for a pod without a record, with the few fields in the runtime's list."""
    named = [{"name": each} for each in sorted(set(containers))]
    return {"metadata": {"name": name, "namespace": namespace, "uid": uid}, "spec": {"containers": named}}


def _from_record(state_dir: Path, workflow_id: str, uid: str) -> dict[str, Any] | None:
    try:
        pod = json.loads((state_dir / "pods" / uid / RECORD_NAME).read_bytes())["pod"]
        is_its = workflow_id.endswith(f"/{pod['metadata']['name']}") and isinstance(pod["spec"], dict)
        return {**pod, "status": {}} if is_its else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _from_snapshot(state_dir: Path, workflow_id: str, uid: str) -> dict[str, Any] | None:
    try:
        said = json.loads((state_dir / "pods" / uid / SNAPSHOT_NAME).read_bytes())
        snapshot = said["next_input"]["snapshot"]
        if said["workflow_id"] != workflow_id or not isinstance(snapshot["pod"]["metadata"], dict):
            return None
        return {**snapshot["pod"], "status": dict(snapshot["status"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None  # there is no snapshot, or another version wrote it, in another format
