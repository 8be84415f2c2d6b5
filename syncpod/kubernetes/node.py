"""The Node and the Lease by which a node reports itself to a cluster. Values in, values out.

Mirrors pkg/kubelet/kubelet_node_status.go and nodestatus/setters.go, v1.36, and component-helpers' lease controller.
Fields and conditions that other clients have set on the Node are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from syncpod.fleet.offers import Taint
from syncpod.kubernetes.json_documents import mapping, mappings
from syncpod.kubernetes.pod_status import same
from syncpod.messages.node import NodeCondition, NodeStatus

REPORTED: Final = "v1.36.2"
"""The kubelet's version that a Node shows: the oldest one whose API server accepts all fields that a node writes.

It may be older than the kubelet whose decisions the node follows (`syncpod.lifecycle.kubelet_version`), never newer:
Kubernetes supports no kubelet that is newer than its API server, and `kubeadm join` refuses one.
"""
LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
"""Seconds without a renewal after which the Lease has expired (nodeLeaseDurationSeconds)."""
LOOK_SECONDS: Final = 10.0
"""Seconds between two checks of the node's status (nodeStatusUpdateFrequency)."""
REPORT_SECONDS: Final = 300.0
"""Seconds after which an unchanged status is written again (nodeStatusReportFrequency)."""
MAX_PODS: Final = "110"
"""The kubelet's maxPods, for a node whose settings name no limit."""
_OWN_CONDITIONS: Final = frozenset(("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"))
_BETA_LABELS: Final = {"kubernetes.io/os": "beta.kubernetes.io/os", "kubernetes.io/arch": "beta.kubernetes.io/arch"}


@dataclass(frozen=True)
class Machine:
    """The identities of a machine, as a Node has them."""

    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""


def kubelet_version(engine: str) -> str:
    """Return the version that the Node shows, such as ``v1.36.2+syncpod.0.1.0``.

    The control plane compares only its first part (:data:`REPORTED`). The rest names this engine, as ``+k3s1`` names
    k3s.
    """
    return f"{REPORTED}+syncpod.{engine.removeprefix('v')}"


def new_node(
    name: str, status: NodeStatus, machine: Machine, now: datetime, port: int = 0, taints: Sequence[Taint] = ()
) -> dict[str, Any]:
    """Return the Node with which a node registers. `port` is its kubelet's; 0 = none."""
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node"}
    node["metadata"] = {"name": name, "labels": _labels(name, status)}
    if taints:
        node["spec"] = {"taints": [{"key": each.key, "value": each.value, "effect": each.effect} for each in taints]}
    return {**node, "status": node_status({}, status, machine, now, port)}


def labels_patch(node: Mapping[str, Any], name: str, status: NodeStatus) -> dict[str, Any] | None:
    """Return the merge patch that gives a Node the node's own labels; None if it has them. Others' labels stay."""
    metadata = mapping(node.get("metadata"))
    known = mapping(metadata.get("labels"))
    missing = {key: value for key, value in _labels(name, status).items() if known.get(key) != value}
    return {"metadata": {"uid": metadata.get("uid"), "labels": missing}} if missing else None


def _labels(name: str, status: NodeStatus) -> dict[str, str]:
    info = status.node_info
    own = {
        **status.labels,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": info.operating_system,
        "kubernetes.io/arch": info.architecture,
    }
    return {**own, **{beta: own[label] for label, beta in _BETA_LABELS.items()}}


def node_status(
    before: Mapping[str, Any], status: NodeStatus, machine: Machine, now: datetime, port: int = 0
) -> dict[str, Any]:
    """Return a Node's status: the present one, `before`, with the node's own parts replaced by those of `status`.

    `now` is the conditions' heartbeat, and `port` the kubelet's; 0 = none.
    """
    known = {str(each.get("type")): each for each in mappings(before.get("conditions"))}
    others = [dict(each) for name, each in known.items() if name not in _OWN_CONDITIONS]
    ours = [_condition(known.get(each.type), each, now) for each in status.conditions]
    info = status.node_info.model_dump(by_alias=True)
    return {
        **before,
        "capacity": _amounts(before.get("capacity"), status.capacity),
        "allocatable": _amounts(before.get("allocatable"), status.allocatable),
        "addresses": [each.model_dump(by_alias=True) for each in status.addresses],
        "conditions": [*others, *ours],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {
            **info,
            "kubeletVersion": kubelet_version(status.node_info.kubelet_version),
            "kubeProxyVersion": "",
            "machineID": machine.machine_id,
            "systemUUID": machine.system_uuid,
            "bootID": machine.boot_id,
        },
    }


def _amounts(before: Any, ours: Mapping[str, str]) -> dict[str, Any]:
    """Return a Node's resources: ours, and the extended ones that other clients have added."""
    foreign = {name: amount for name, amount in mapping(before).items() if "/" in name}
    return {**foreign, "pods": MAX_PODS, **ours}


def _condition(before: Mapping[str, Any] | None, now: NodeCondition, heartbeat: datetime) -> dict[str, Any]:
    since = now.last_transition_time
    moved = rfc3339(since if since is not None else heartbeat)
    if before is not None and before.get("status") == now.status and before.get("lastTransitionTime"):
        moved = str(before["lastTransitionTime"])
    return {
        "type": now.type,
        "status": now.status,
        "reason": now.reason,
        "message": now.message,
        "lastHeartbeatTime": rfc3339(heartbeat),
        "lastTransitionTime": moved,
    }


def has_changed(before: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Return whether a status differs in more than the heartbeats of its conditions."""
    return not same(_quiet(before), _quiet(status))


def _quiet(status: Mapping[str, Any]) -> dict[str, Any]:
    conditions = {
        str(each.get("type")): {name: value for name, value in each.items() if name != "lastHeartbeatTime"}
        for each in mappings(status.get("conditions"))
    }
    return {**status, "conditions": conditions}


def lease(name: str, node_uid: str, before: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    """Return the node's Lease, renewed at `now`. The Node owns it, so it is deleted together with its Node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
    metadata = {"name": name, "namespace": LEASE_NAMESPACE, **mapping(mapping(before).get("metadata"))}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {**metadata, "ownerReferences": [owner]},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }


def rfc3339(at: datetime) -> str:
    """Return a time as Kubernetes writes it: UTC, in seconds."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
