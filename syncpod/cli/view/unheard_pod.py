"""Renders a pod whose node is silent, from the fleet's own records, for ``describe`` and ``explain``.

Pure: values in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from syncpod.api.views.durations import age
from syncpod.api.views.layout import NONE, pairs
from syncpod.cli.view.fleet_table import owner_of
from syncpod.fleet.when_lost import WHEN_LOST, WhenLost
from syncpod.fleet.workload_traits import is_per_node
from syncpod.go_durations import go_duration
from syncpod.messages.fleet import FleetNodeView, PlacedPod
from syncpod.messages.workload import WorkloadPod


@dataclass(frozen=True)
class UnheardPod:
    """A pod on a node that is Unknown or has not answered, and the next action of its fleet."""

    node: FleetNodeView
    placed: PlacedPod
    kind: str
    """The kind of its workload; "" = it has none, since its manifest names the node."""
    rule: WhenLost
    copy: WorkloadPod | None
    """The pod in its workload's view; None = the pod has no workload, or that view lacks the pod."""
    silent: str = ""
    """A clause about a node that has not answered and does not count as Unknown yet; "" = it is Unknown."""

    def status(self, now: datetime) -> str:
        """Return a clause: the pod's current state is not known, and why."""
        return f"not known: {self.silent or silence(self.node, now)}"

    def last(self, now: datetime) -> str:
        """Return the node's last report of the pod, in a clause."""
        report = self.placed.report
        if report is None:
            return "its node has never reported it"
        said = [report.status or report.phase, f"{report.ready_containers} ready", _restarts(report.restarts)]
        said += [f"ready since {moment(report.ready_since, now)}"] if report.ready and report.ready_since else []
        return ", ".join(said)

    def then(self, now: datetime) -> list[str]:
        """Return the next action of the fleet, and what the node does meanwhile, in sentences."""
        has_ended = self.placed.report is not None and self.placed.report.phase in ("Succeeded", "Failed")
        return [self.next(now), *([] if has_ended or self.placed.state == "ending" else [self._meanwhile()])]

    def _meanwhile(self) -> str:
        if self.rule.action == "stop-after":
            after = go_duration(self.rule.after)
            return f"if node {self.node.name} runs, it stops the pod by itself {after} after its last contact"
        return f"if node {self.node.name} runs, the pod runs on there"

    def next(self, now: datetime) -> str:
        """Return the next action of the fleet, in a sentence."""
        node, copy = self.node.name, self.copy
        if self.placed.state == "ending":
            why = f" ({self.placed.why})" if self.placed.why else ""
            return f"it was withdrawn{why}: node {node} ends it as soon as it is back"
        if copy is not None and copy.replaced_by:
            return f"{copy.replaced_by} has replaced it; when node {node} is back, one of the two is removed"
        if copy is not None and copy.replaced_at is not None and self.rule.action != "wait":
            rule = f"{WHEN_LOST}: {self.rule}"
            if copy.replaced_at > now:
                return f"it is replaced at {moment(copy.replaced_at, now)} unless node {node} is back ({rule})"
            return f"it is to be replaced since {moment(copy.replaced_at, now)} ({rule}), unless node {node} is back"
        if self.silent and not is_per_node(self.kind) and self.rule.action != "wait":
            rule = f"{WHEN_LOST}: {self.rule}"
            return f"if node {node} stays silent, it becomes Unknown, and then the pod is replaced ({rule})"
        return f"nothing until node {node} is back: {self._why_not_replaced()}"

    def _why_not_replaced(self) -> str:
        if not self.kind:
            return "a pod with a nodeName runs on no other node"
        if is_per_node(self.kind):
            return f"a pod of a {self.kind} belongs to its node"
        return f"no other pod replaces it ({WHEN_LOST}: {self.rule})"


def silence(node: FleetNodeView, now: datetime) -> str:
    """Return since when a node is silent, in a clause."""
    if node.since is None:
        return f"node {node.name} is Unknown"
    return f"node {node.name} has been Unknown since {moment(node.since, now)}, for {age(node.since, now)}"


def described(pod: UnheardPod, now: datetime) -> list[str]:
    """Return the lines that ``describe`` prints of the pod."""
    placed, report = pod.placed, pod.placed.report
    rows = [
        ("Name", [placed.name]),
        ("Namespace", [placed.namespace]),
        ("Node", [pod.node.name]),
        ("Owner", [owner_of(placed)]),
        ("Placed", [age(placed.since, now) if placed.since is not None else NONE]),
        ("Status", ["Unknown"]),
        ("IP", [(report.ip if report else "") or NONE]),
        ("Last Report", [pod.last(now), *([report.message] if report and report.message else [])]),
        ("Why", _why(pod, now)),
        ("Next", pod.then(now)),
    ]
    return list(pairs(rows))


def explained(pod: UnheardPod, now: datetime) -> list[str]:
    """Return the lines that ``explain`` prints of the pod."""
    placed, report = pod.placed, pod.placed.report
    rows = [
        ("Pod", [f"{placed.namespace}/{placed.name} on node {pod.node.name}"]),
        ("Now", [pod.status(now)]),
        ("Last report", [pod.last(now), *([report.message] if report and report.message else [])]),
        *([("Why", [pod.node.trouble])] if pod.node.trouble else []),
        ("Next", pod.then(now)),
    ]
    return list(_labelled(rows))


def explained_document(pod: UnheardPod, now: datetime) -> dict[str, Any]:
    """Return the document that ``explain -o json`` prints."""
    placed, copy = pod.placed, pod.copy
    report = placed.report.model_dump(mode="json", by_alias=True, exclude_none=True) if placed.report else None
    return {
        "kind": "Pod",
        "namespace": placed.namespace,
        "name": placed.name,
        "node": pod.node.name,
        "status": "Unknown",
        "lastReport": report,
        "whenLost": str(pod.rule),
        "replacedAt": copy.replaced_at.isoformat() if copy is not None and copy.replaced_at is not None else None,
        "replacedBy": (copy.replaced_by if copy is not None else "") or None,
        "why": _why(pod, now),
        "next": pod.next(now),
    }


def explained_node(node: FleetNodeView, now: datetime, silent: str = "") -> list[str]:
    """Return the lines that ``explain`` prints of a node that is Unknown, or has not answered (`silent` says how)."""
    ending = sum(each.state == "ending" for each in node.placed)
    count = "1 pod is" if len(node.placed) - ending == 1 else f"{len(node.placed) - ending} pods are"
    withdrawn = f", and {ending} withdrawn" if ending else ""
    rows = [
        ("Node", [node.name]),
        ("Now", [silent or silence(node, now)]),
        *([("Why", [node.trouble])] if node.trouble else []),
        ("Pods", [f"{count} placed there{withdrawn}: `syncpod fleet describe node {node.name}` lists them"]),
        ("Next", ["`syncpod fleet explain POD` says of each pod whether another one replaces it, and when"]),
    ]
    return list(_labelled(rows))


def explained_node_document(node: FleetNodeView, now: datetime, silent: str = "") -> dict[str, Any]:
    """Return the document that ``explain -o json`` prints of a node that is Unknown, or has not answered."""
    why = [silent or silence(node, now), *([node.trouble] if node.trouble else [])]
    return {"kind": "Node", "name": node.name, "status": "Unknown", "pods": len(node.placed), "why": why}


def moment(at: datetime, now: datetime) -> str:
    """Return a moment as text in this machine's time zone, without the date if it is today."""
    local = at.astimezone()
    return f"{local:%H:%M:%S}" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d %H:%M:%S}"


def _why(pod: UnheardPod, now: datetime) -> list[str]:
    return [pod.silent or silence(pod.node, now), *([pod.node.trouble] if pod.node.trouble else [])]


def _restarts(number: int) -> str:
    return "1 restart" if number == 1 else f"{number} restarts"


def _labelled(rows: Iterable[tuple[str, list[str]]]) -> Iterable[str]:
    for name, texts in rows:
        for number, text in enumerate(texts):
            yield f"{'' if number else f'{name}:'}".ljust(13) + text
