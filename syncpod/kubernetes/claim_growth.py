"""The node's part when the volume of a claim has grown, and the patches of the claim's status. Values in, values out.

Mirrors pkg/volume/util/operationexecutor/node_expander.go, operation_generator.go (nodeExpandVolume) and
pkg/volume/util/resize_util.go, v1.36. First the volume's controller grows the volume, and sets `NodeResizePending` in
the claim's status; then the node grows the file system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final, Literal

from syncpod.kubernetes.json_documents import mapping, mappings, merge_patch
from syncpod.pod.quantity import parse_quantity

STORAGE: Final = "storage"
NOT_REQUIRED: Final = "volume.kubernetes.io/node-expansion-not-required"
"""The annotation of a claim for which nodes have nothing to do."""
_PENDING: Final = ("NodeResizePending", "NodeResizeInProgress")
_CONDITIONS: Final = ("Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError")
"""The conditions of a claim that are about its growing."""


@dataclass(frozen=True)
class Growth:
    """The work of a node for a volume that is larger at the cluster than on the node."""

    step: Literal["grow", "wait", "done"]
    size: str
    """The new size, as the cluster writes it."""
    is_in_claim: bool = False
    """Another node has written the new size to the claim's status already, so this node does not write it."""
    has_states: bool = False
    """The cluster's resizer and the node both keep the state of the growth in the claim (allocatedResourceStatuses)."""
    is_too_late: bool = False
    """The claim now requests a size other than the allocated one: if growing fails once more, the node gives up."""

    @property
    def bytes(self) -> int:
        """The size in bytes, rounded up."""
        return size_in_bytes(self.size)


def size_in_bytes(text: str) -> int:
    """Return a size in bytes, rounded up; 0 if it cannot be read."""
    try:
        return ceil(parse_quantity(text).number)
    except ValueError:
        return 0


def claim_size(claim: Mapping[str, Any]) -> int:
    """Return the size that a claim's status has, in bytes; 0 = none."""
    return size_in_bytes(_storage(mapping(claim.get("status")), "capacity"))


def due_growth(claim: Mapping[str, Any], volume: Mapping[str, Any], size: int, *, has_failed: bool) -> Growth | None:
    """Return a node's work for a volume whose size on the node is `size` bytes; None if it has not grown.

    A `size` of 0 means unknown, and gives None. `has_failed`: the driver has refused for good to grow the volume.
    """
    wanted = _storage(mapping(volume.get("spec")), "capacity")
    if not size or size_in_bytes(wanted) <= size:
        return None
    spec, status = mapping(claim.get("spec")), mapping(claim.get("status"))
    state = _storage(status, "allocatedResourceStatuses")
    if not state and status.get("allocatedResources") is None:  # an older controller, which keeps no states
        return Growth("grow", wanted, is_in_claim=claim_size(claim) >= size_in_bytes(wanted))
    allocated = _storage(status, "allocatedResources") or "0"
    is_in_claim = not state and claim_size(claim) >= size_in_bytes(allocated)
    is_shared = "ReadWriteMany" in (spec.get("accessModes") or ())
    annotations = mapping(mapping(claim.get("metadata")).get("annotations"))
    if is_in_claim and not (is_shared and NOT_REQUIRED not in annotations):
        return Growth("done", wanted)
    if not is_in_claim and state not in _PENDING:
        return Growth("wait", wanted)
    asked = size_in_bytes(_storage(mapping(spec.get("resources")), "requests"))
    is_too_late = has_failed and asked != size_in_bytes(allocated)
    return Growth("grow", allocated, is_in_claim=is_in_claim, has_states=True, is_too_late=is_too_late)


def begun(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that marks a claim as being grown by its node (MarkNodeExpansionInProgress)."""
    status = mapping(claim.get("status"))
    states = {**mapping(status.get("allocatedResourceStatuses")), STORAGE: "NodeResizeInProgress"}
    return _patch(claim, {**status, "allocatedResourceStatuses": states})


def finished(claim: Mapping[str, Any], size: str) -> dict[str, Any]:
    """Return the patch that sets a claim's new size and ends the growth (MarkFSResizeFinished)."""
    status = mapping(claim.get("status"))
    states = {key: each for key, each in mapping(status.get("allocatedResourceStatuses")).items() if key != STORAGE}
    others = [each for each in mappings(status.get("conditions")) if each.get("type") not in _CONDITIONS]
    after = {
        **status,
        "capacity": {**mapping(status.get("capacity")), STORAGE: size},
        "allocatedResourceStatuses": states or None,
        "conditions": others or None,
    }
    return _patch(claim, after)


def failed(claim: Mapping[str, Any], why: str, at: datetime, *, is_infeasible: bool) -> dict[str, Any]:
    """Return the patch that records why a node could not grow a claim; `is_infeasible` = the node does not try again.

    Mirrors MarkNodeExpansionInfeasible and MarkNodeExpansionFailedCondition.
    """
    status = mapping(claim.get("status"))
    conditions = mappings(status.get("conditions"))
    if not any(each.get("type") == "NodeResizeError" and each.get("status") == "True" for each in conditions):
        now = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        error = {"type": "NodeResizeError", "status": "True", "lastTransitionTime": now}
        others = [each for each in conditions if each.get("type") != "NodeResizeError"]
        conditions = [*others, {**error, "message": f"failed to expand pvc with {why}"}]
    after = {**status, "conditions": conditions}
    if is_infeasible:
        states = {**mapping(status.get("allocatedResourceStatuses")), STORAGE: "NodeResizeInfeasible"}
        after["allocatedResourceStatuses"] = states
    return {"status": merge_patch(status, after)}


def _patch(claim: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    version = mapping(claim.get("metadata")).get("resourceVersion")
    return {"metadata": {"resourceVersion": version}, "status": merge_patch(mapping(claim.get("status")), status)}


def _storage(holder: Mapping[str, Any], field: str) -> str:
    return str(mapping(holder.get(field)).get(STORAGE) or "")
