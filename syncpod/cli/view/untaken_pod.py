"""Renders a pod of a fleet that its node has not accepted yet, for ``describe`` and ``explain``.

Pure: values in, lines out.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from syncpod.api.views.durations import age
from syncpod.api.views.layout import NONE, pairs
from syncpod.cli.view.fleet_table import owner_of
from syncpod.messages.fleet import FleetNodeSummary, FleetNodeView, PlacedPod
from syncpod.messages.workload import PendingPod


def silence_of(node: FleetNodeSummary, now: datetime) -> str:
    """Return since when the fleet counts a node as silent, in a clause; "" if it does not."""
    if node.presence != "Unknown" or node.since is None:
        return ""
    return f"node {node.name} has been Unknown since {node.since:%Y-%m-%dT%H:%M:%SZ}, for {age(node.since, now)}"


def why_untaken(node: FleetNodeView, pod: PlacedPod, now: datetime) -> list[str]:
    """Return sentences: the node has not accepted the pod yet, and why, as far as the reason is known."""
    if pod.refusal:
        return [f"node {node.name} has not taken the pod: {pod.refusal}"]
    known = silence_of(node, now) or ("" if node.presence == "Ready" else f"node {node.name} is {node.presence}")
    sentences = [f"node {node.name} has not taken the pod yet" + (f": {known}" if known else "")]
    return sentences + ([f"node {node.name} does not answer as it should: {node.trouble}"] if node.trouble else [])


def described(node: FleetNodeView, pod: PlacedPod, now: datetime) -> list[str]:
    """Return the lines that ``describe`` prints of the pod."""
    rows = pairs(
        [
            ("Name", [pod.name]),
            ("Namespace", [pod.namespace]),
            ("Node", [node.name]),
            ("Owner", [owner_of(pod)]),
            ("Placed", [age(pod.since, now) if pod.since is not None else NONE]),
            ("Status", ["Pending"]),
            ("Ready", [f"0/{pod.containers}"]),
            ("Why", why_untaken(node, pod, now)),
        ]
    )
    return list(rows)


def described_without_node(namespace: str, pod: PendingPod, why: str, now: datetime) -> list[str]:
    """Return the lines that ``describe`` prints of a pod that is on no node yet; `why` is a clause."""
    return list(
        pairs(
            [
                ("Name", [pod.name]),
                ("Namespace", [namespace]),
                ("Node", [NONE]),
                ("Age", [age(pod.created, now)]),
                ("Status", ["Pending"]),
                ("Ready", [f"0/{pod.containers}"]),
                ("Why", [f"it is on no node yet: {why}", f"`fleet explain --placement {pod.name}` says more"]),
            ]
        )
    )


def explained(node: FleetNodeView, pod: PlacedPod, now: datetime) -> list[str]:
    """Return the lines that ``explain`` prints of the pod."""
    first, *more = why_untaken(node, pod, now)
    rows = [("Pod", f"{pod.namespace}/{pod.name}"), ("Now", f"Pending on node {node.name}"), ("Why", first)]
    rows += [("", each) for each in more] + [("Next", _next(node, pod))]
    return [f"{name}:".ljust(13) + text if name else " " * 13 + text for name, text in rows]


def explained_without_node(namespace: str, pod: PendingPod, why: str) -> list[str]:
    """Return the lines that ``explain`` prints of a pod that is on no node yet; `why` is a clause."""
    rows = [("Pod", f"{namespace}/{pod.name}"), ("Now", "Pending, on no node yet"), ("Why", why)]
    rows += [("Next", f"the fleet tries again; `syncpod fleet explain --placement {pod.name}` says more of each node")]
    return [f"{name}:".ljust(13) + text for name, text in rows]


def explained_document(node: FleetNodeView, pod: PlacedPod, now: datetime) -> dict[str, Any]:
    """Return the document that ``explain -o json`` prints."""
    named = {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "node": node.name}
    return {**named, "status": "Pending", "why": why_untaken(node, pod, now), "next": _next(node, pod)}


def _next(node: FleetNodeView, pod: PlacedPod) -> str:
    if pod.refusal:
        return f"--node {node.name} reaches the node's own pod of that name, if it has one"
    return f"node {node.name} takes it as soon as it answers the fleet"
