"""Nodes: as rows of a table, in kubectl's columns, and as v1 Node objects.

Mirrors pkg/printers/internalversion/printers.go, v1.36, printNode. Pure: values in, values out.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from syncpod.api.views.durations import age
from syncpod.api.views.layout import NONE

if TYPE_CHECKING:
    from syncpod.api.listed_node import ListedNode

HEADER: Final = ("NAME", "STATUS", "ROLES", "AGE", "VERSION")
WIDE: Final = ("INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME")
_UNKNOWN: Final = "<unknown>"
_TAINT: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def status_of(node: ListedNode) -> str:
    """Return the node's status in a word or two: ``Ready,SchedulingDisabled``."""
    word = "Ready" if node.ready else "NotReady" if node.conditions else "Unknown"
    return f"{word},SchedulingDisabled" if node.view.unschedulable else word


def row(node: ListedNode, now: datetime) -> tuple[str, ...]:
    """Return the cells of a node's line, the wide ones too."""
    view = node.view
    info = view.node_info
    cells = (node.name, status_of(node), NONE, age(view.since, now), info.kubelet_version or _UNKNOWN)
    address = next((each.address for each in view.addresses if each.type == "InternalIP"), NONE)
    machine = (info.os_image, info.kernel_version, info.container_runtime_version)
    return (*cells, address, NONE, *(each or _UNKNOWN for each in machine))


def document(node: ListedNode) -> dict[str, Any]:
    """Return the node as a v1 Node."""
    view = node.view
    spec: dict[str, Any] = {"unschedulable": True, "taints": [_TAINT]} if view.unschedulable else {}
    conditions = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in node.conditions]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            **({"creationTimestamp": view.since.strftime("%Y-%m-%dT%H:%M:%SZ")} if view.since is not None else {}),
            "labels": view.labels,
        },
        "spec": spec,
        "status": {
            "capacity": view.capacity,
            "allocatable": view.allocatable,
            "conditions": conditions,
            "addresses": [each.model_dump(mode="json", by_alias=True) for each in view.addresses],
            "nodeInfo": view.node_info.model_dump(mode="json", by_alias=True),
        },
    }
