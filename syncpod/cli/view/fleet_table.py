"""A fleet's nodes and pods as tables and as v1 objects. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from syncpod.api.views.durations import age
from syncpod.api.views.layout import NONE
from syncpod.fleet.workload_traits import KINDS
from syncpod.messages.fleet import OWNER_ANNOTATION, FleetNodeSummary, FleetNodeView, PlacedPod
from syncpod.messages.fleet_objects import FleetObjectView
from syncpod.messages.workload import PendingPod, WorkloadSummary, WorkloadView

NODE_HEADER: Final = ("NAME", "STATUS", "PODS", "AGE", "VERSION")
NODE_WIDE: Final = ("SINCE", "INTERNAL-IP", "OS-IMAGE", "CONTAINER-RUNTIME")
POD_HEADER: Final = ("NAME", "READY", "STATUS", "RESTARTS", "AGE")
POD_WIDE: Final = ("IP", "NODE", "OWNER")
WORKLOAD_WIDE: Final = ("ROLLOUT",)
_FROM_LIST: Final = ("labels", "annotations")
"""The fields of a pod's document that come from the metadata in its node's list."""


def node_status(node: FleetNodeSummary) -> str:
    """Return the node's status in a word or two: ``Ready,SchedulingDisabled``."""
    said = f"{node.presence},SchedulingDisabled" if node.unschedulable else node.presence
    said = f"{said},Draining" if node.draining else said
    return f"{said},TwoMachines" if node.doubled else said


def node_row(node: FleetNodeSummary, now: datetime) -> tuple[str, ...]:
    """Return the cells of a node's line, the wide ones too. SINCE is how long it has had its status."""
    info = node.node_info
    cells = (node.name, node_status(node), str(node.pods), age(node.joined, now), info.kubelet_version or NONE)
    address = next((each.address for each in node.addresses if each.type == "InternalIP"), NONE)
    return (*cells, age(node.since, now), address, info.os_image or NONE, info.container_runtime_version or NONE)


def pod_status(node: FleetNodeView, pod: PlacedPod) -> str:
    """Return a pod's status by its node's last report; Unknown if the node has been silent since.

    A pod that the node has never reported is Pending, like a pod of a Kubernetes cluster that is bound to a dead node.
    """
    if node.presence == "Unknown" and (pod.report is not None or pod.state == "ending"):
        return "Unknown"
    if pod.state == "refused":
        return "Refused"
    if pod.state == "ending":
        return "Terminating"
    return pod.report.status if pod.report is not None else "Pending"


def pod_row(node: FleetNodeView, pod: PlacedPod, now: datetime) -> tuple[str, ...]:
    """Return the cells of a pod's line, the wide ones too."""
    report = pod.report
    ready, restarts = f"0/{pod.containers}", "0"
    if report is not None and not report.is_untaken:
        ready, restarts = report.ready_containers, str(report.restarts)
    since = pod.since or (report.started_at if report is not None else None)
    began = age(since, now) if since is not None else NONE
    cells = (pod.name, ready, pod_status(node, pod), restarts, began)
    return (*cells, (report.ip if report is not None else "") or NONE, node.name, owner_of(pod))


def owner_of(pod: PlacedPod) -> str:
    """Return the workload of a pod, marked if the workload is gone."""
    return f"{pod.owner} (gone)" if pod.is_orphan else pod.owner or NONE


def pending_row(owner: str, pod: PendingPod, now: datetime) -> tuple[str, ...]:
    """Return the cells, also the wide ones, of the line of a pod that is not known to be on a node."""
    cells = (pod.name, f"0/{pod.containers}", "Pending", "0", age(pod.created, now))
    return (*cells, NONE, pod.node or NONE, owner)


def pending_document(namespace: str, labels: Mapping[str, str], pod: PendingPod) -> dict[str, Any]:
    """Return a pod that is not known to be on a node as a v1 Pod, with the reason. `labels` are its template's."""
    meta = {"name": pod.name, "namespace": namespace, "labels": dict(labels), **_created(pod.created)}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": pod.why}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta if labels else {name: value for name, value in meta.items() if name != "labels"},
        "status": {"phase": "Pending", "conditions": [condition] if pod.why else []},
    }


def object_row(one: FleetObjectView, now: datetime) -> tuple[str, ...]:
    """Return the cells of the line of a ConfigMap or Secret, in the same columns as for a node's objects."""
    return (one.name, *((one.type,) if one.kind == "Secret" else ()), str(one.keys), age(one.since, now))


def node_document(node: FleetNodeView) -> dict[str, Any]:
    """Return a node as a v1 Node."""
    conditions = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in node.conditions]
    if node.presence == "Unknown":
        conditions = [each | {"status": "Unknown", "reason": "NodeStatusUnknown"} for each in conditions]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": node.labels, **_created(node.joined)},
        "spec": {"unschedulable": True} if node.unschedulable else {},
        "status": {
            "capacity": node.capacity,
            "allocatable": node.allocatable,
            "conditions": conditions,
            "addresses": [each.model_dump(mode="json", by_alias=True) for each in node.addresses],
            "nodeInfo": node.node_info.model_dump(mode="json", by_alias=True),
        },
    }


def pod_document(node: FleetNodeView, pod: PlacedPod, wanted: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a v1 Pod with the parts that the fleet has. The pod's node has the rest.

    `wanted` is the v1 Pod in the node's list; None = the list lacks the pod, which is ending.
    """
    told: Mapping[str, Any] = wanted or {}
    report, status = pod.report, {"phase": "Pending"}
    conditions: list[dict[str, str]] = []
    if report is not None:
        known = node.presence != "Unknown"
        status = {"phase": report.phase if known else "Unknown", "podIP": report.ip, "message": report.message}
        conditions = [{"type": "Ready", "status": ("True" if report.ready else "False") if known else "Unknown"}]
    meta = {"name": pod.name, "namespace": pod.namespace, "uid": report.uid if report is not None else ""}
    said = {name: dict(told.get("metadata", {}).get(name) or {}) for name in _FROM_LIST}
    said["annotations"].pop(OWNER_ANNOTATION, None)  # an apply of this document would take it for the user's own
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {name: text for name, text in meta.items() if text}
        | {name: texts for name, texts in said.items() if texts}
        | _created(pod.since),
        "spec": {**told.get("spec", {}), "nodeName": node.name},
        "status": {**{name: text for name, text in status.items() if text}, "conditions": conditions},
    }


def _created(at: datetime | None) -> dict[str, str]:
    return {} if at is None else {"creationTimestamp": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def workload_header(kind: str) -> tuple[str, ...]:
    """Return the header of a list of workloads, as in kubectl."""
    return ("NAME", *(header for header, _ in KINDS[kind].columns), "AGE")


def workload_row(workload: WorkloadSummary, now: datetime) -> tuple[str, ...]:
    """Return the cells of a workload's line, the wide one too: the state of its rollout."""
    one = workload
    counts = (cell.format(one=one) for _, cell in KINDS[one.kind].columns)
    return (one.name, *counts, age(one.since, now), one.says or NONE)


def workload_document(workload: WorkloadView) -> dict[str, Any]:
    """Return a workload's admitted document, with its status."""
    status = {name: getattr(workload, count) for name, count in KINDS[workload.kind].status}
    document = workload.document or {}
    named = {"name": workload.name, "namespace": workload.namespace}
    meta = {**named, **document.get("metadata", {}), **_created(workload.since)}
    return {**document, "metadata": meta, "status": status}
