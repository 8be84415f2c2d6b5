"""The events that changes of a node cause. Values in, values out.

Mirrors pkg/kubelet/nodestatus/setters.go, v1.36, ReadyCondition, MemoryPressureCondition and its siblings, VersionInfo,
and kubelet_node_status.go, recordNodeSchedulableEvent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from syncpod.journal.records import SERVER_REACHABLE, SERVER_UNREACHABLE
from syncpod.kubernetes.json_documents import mapping, mappings

_REASONS: Final = {
    "MemoryPressure": ("NodeHasInsufficientMemory", "NodeHasSufficientMemory"),
    "DiskPressure": ("NodeHasDiskPressure", "NodeHasNoDiskPressure"),
    "PIDPressure": ("NodeHasInsufficientPID", "NodeHasSufficientPID"),
}
"""For each condition: the reasons of two events, that it has become true and that it is no longer true."""


class NodeChange(NamedTuple):
    """An event of a node."""

    type: str
    reason: str
    message: str


def pressures(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> list[NodeChange]:
    """Return the events for changes of a node's own conditions; both arguments map a type to its status.

    A condition that was not known before causes an event, whatever its status.
    """
    found = []
    for condition, (under, enough) in _REASONS.items():
        if condition in now and (now[condition] == "True") != (
            before[condition] == "True" if condition in before else None
        ):
            found.append(_status(name, under if now[condition] == "True" else enough))
    return found


def starting(*, has_cgroup_v1: bool, limits_pods: bool) -> list[NodeChange]:
    """Return the events of a node whose worker starts.

    As in the kubelet, cgroup v1 is deprecated (kubelet_linux.go, v1.36, cgroupVersionCheck), and a limit of all pods
    together is reported (cm/node_container_manager_linux.go, enforceNodeAllocatableCgroups).
    """
    found = [NodeChange("Normal", "Starting", "Starting kubelet.")]
    if has_cgroup_v1:
        found.append(
            NodeChange("Warning", "CgroupV1", "This machine has cgroup v1, which Kubernetes is going to give up")
        )
    if limits_pods:
        found.append(NodeChange("Normal", "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods"))
    return found


def shutdown(*, begins: bool) -> list[NodeChange]:
    """Return the event of a machine that shuts down, or no longer does (nodeshutdown_manager_linux.go, v1.36)."""
    what = "event" if begins else "cancellation"
    return [NodeChange("Normal", "NodeShutdown", f"Shutdown manager detected shutdown {what}")]


def server(*, answers: bool) -> list[NodeChange]:
    """Return the event that the node's Temporal server does not answer, or that it answers again."""
    return [NodeChange(*(SERVER_REACHABLE if answers else SERVER_UNREACHABLE))]


def written(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[NodeChange]:
    """Return the events for a change that the node has written to its Node: another readiness, or a reboot.

    A change from Unknown counts too: a controller sets that while reports are missing. A new Node, whose `before` is
    empty, counts as not ready before: a kubelet registers first, and reports a moment later that it is ready.
    """
    found = []
    was, ready = _ready(before) if before else "False", _ready(after)
    if was and ready and was != ready:
        found.append(_status(name, "NodeReady" if ready == "True" else "NodeNotReady"))
    booted, boots = _boot_id(before), _boot_id(after)
    if booted and boots and booted != boots:
        found.append(NodeChange("Warning", "Rebooted", f"Node {name} has been rebooted, boot id: {boots}"))
    return found


def scheduling(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[NodeChange]:
    """Return the event of a Node that has been cordoned or uncordoned; [] if neither has happened."""
    was, is_now = (bool(mapping(each.get("spec")).get("unschedulable")) for each in (before, after))
    if not before or was == is_now:
        return []
    return [_status(name, "NodeNotSchedulable" if is_now else "NodeSchedulable")]


def _status(name: str, reason: str) -> NodeChange:
    return NodeChange("Normal", reason, f"Node {name} status is now: {reason}")


def _ready(node: Mapping[str, Any]) -> str:
    conditions = mappings(mapping(node.get("status")).get("conditions"))
    return next((str(each.get("status")) for each in conditions if each.get("type") == "Ready"), "")


def _boot_id(node: Mapping[str, Any]) -> str:
    return str(mapping(mapping(node.get("status")).get("nodeInfo")).get("bootID") or "")
