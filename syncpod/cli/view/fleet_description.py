"""The output of ``fleet describe`` for a workload and for a node. Pure: values in, lines out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from syncpod.api.views.durations import age
from syncpod.api.views.layout import NONE, mapping, pairs
from syncpod.api.views.text import columns
from syncpod.cli.view.fleet_table import node_status, owner_of, pod_status
from syncpod.journal.records import EventRecord
from syncpod.messages.fleet import FleetNodeView
from syncpod.messages.fleet_objects import FleetObjectView
from syncpod.messages.workload import WorkloadView


def describe_workload(workload: WorkloadView, now: datetime) -> list[str]:
    """Return the lines: the state of the rollout, each pod with its node, and why a pod fits no node."""
    one = workload
    counts = f"{one.desired} desired, {one.updated} updated, {one.replicas} total, {one.available} available"
    lines = [
        *pairs(
            [
                ("Name", [one.name]),
                ("Namespace", [one.namespace]),
                ("Kind", [one.kind]),
                ("Age", [age(one.since, now)]),
                ("Replicas", [counts]),
                ("Template", [one.revision or NONE]),
                ("Last Good", [one.good or NONE]),
                ("Rollout", [one.says or NONE]),
            ]
        )
    ]
    rows = [("Name", "Node", "Template", "Status", "Restarts", "Why")]
    rows += [
        (each.name, each.node or NONE, each.revision, each.status or "Pending", str(each.restarts), each.why)
        for each in one.pods
    ]
    lines += ["Pods:", *_indented(columns(rows))] if one.pods else ["Pods:  <none>"]
    if one.refusals:
        lines += ["Placement of the pod that was tried last:", *_indented(one.refusals)]
    return lines + _events(one.events, now)


def describe_object(one: FleetObjectView, now: datetime) -> list[str]:
    """Return the lines of a ConfigMap or a Secret, whose content is sealed."""
    rows = [("Name", [one.name]), ("Namespace", [one.namespace]), ("Kind", [one.kind])]
    rows += [("Type", [one.type])] if one.kind == "Secret" else []
    keys = "1 key" if one.keys == 1 else f"{one.keys} keys"
    rows += [("Age", [age(one.since, now)]), ("Data", [f"{keys}, sealed for the nodes whose pods refer to them"])]
    return [*pairs(rows), *_events(one.events, now)]


def revision_rows(workload: WorkloadView, now: datetime) -> list[tuple[str, ...]]:
    """Return the table of a workload's revisions, oldest first."""
    rows: list[tuple[str, ...]] = [("REVISION", "TEMPLATE", "AGE", "CHANGE-CAUSE", "RESULT")]
    for each in workload.history:
        is_newest = each is workload.history[-1]
        result = each.given_up or ("rolled out" if each.good_since else "not rolled out before the next one")
        if is_newest and not (each.given_up or each.good_since):
            result = workload.says
        rows.append((str(each.number), each.template, age(each.applied, now), each.cause or NONE, result))
    return rows


def describe_node(node: FleetNodeView, now: datetime) -> list[str]:
    """Return the lines: the node's presence, the list of pods that it has accepted, and its pods."""
    behind = "" if node.taken >= node.generation else f"; the node has taken {node.taken}"
    lines = [
        *pairs(
            [
                ("Name", [node.name]),
                ("Fleet", [node.fleet]),
                ("Status", [f"{node_status(node)}, for {age(node.since, now)}"]),
                ("Labels", mapping(node.labels)),
                ("Joined", [age(node.joined, now)]),
                ("List", [f"{node.generation}{behind}"]),
                *([("Trouble", [node.trouble])] if node.trouble else []),
                ("Listens At", [node.endpoint or NONE]),
                ("Allocatable", [f"{name}: {text}" for name, text in node.allocatable.items()] or [NONE]),
                *([("Limits Refused", [", ".join(node.unenforced_limits)])] if node.unenforced_limits else []),
            ]
        )
    ]
    rows = [("Namespace", "Name", "State", "Status", "Restarts", "Owner", "Why")]
    for pod in node.placed:
        restarts, why = (pod.report.restarts, pod.report.message) if pod.report else (0, "")
        status, owner = pod_status(node, pod), owner_of(pod)
        why = "its workload is gone: apply it, or delete the pod" if pod.is_orphan else why
        rows.append((pod.namespace, pod.name, pod.state, status, str(restarts), owner, pod.why or why))
    lines += ["Pods:", *_indented(columns(rows))] if node.placed else ["Pods:  <none>"]
    return lines + _events(node.events, now)


def _events(events: Sequence[EventRecord], now: datetime) -> list[str]:
    if not events:
        return ["Events:  <none>"]
    rows = [("Type", "Reason", "Age", "Message")]
    for each in events:
        times = f" (x{each.count})" if each.count > 1 else ""
        rows.append((each.type, each.reason, f"{age(each.last, now)}{times}", each.message))
    return ["Events:", *_indented(columns(rows))]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
