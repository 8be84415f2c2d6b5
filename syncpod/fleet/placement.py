"""The node that a pod goes to, and why it may not go to others: the filters and scores of kube-scheduler.

Mirrors pkg/scheduler, v1.36: schedule_one.go with the default plugins in their order and with their weights. Reasons
are worded as by the plugins, and the summary as in a FailedScheduling event (framework/types.go, FitError.Error).
Differences:

- There is no preemption, and no random choice. If nodes have equal scores, the one with the fewest pods is chosen. A
  hash of the pod and the node decides between nodes that are still equal, so that ties spread.
- A pod with ``spec.nodeName`` passes the filters too. In a cluster the scheduler never sees it.
- No toleration places a pod on a node that cannot be reached: the node could not receive the pod.
- No toleration places a pod on a node for which two machines answer: both would run it.
- A node has at most one pod of a name. Names of pods are only unique on a node.
- A node whose runtime cannot enforce a limit of the pod is passed over: it would not admit the pod.
- Volumes, images and devices play no part, and neither does NodeResourcesBalancedAllocation.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from syncpod.fleet.affinity import Neighbors, own_anti_affinity
from syncpod.fleet.offers import NodeOffer, PodThere
from syncpod.fleet.resource_fit import insufficient, least_allocated
from syncpod.fleet.spread import Spread
from syncpod.fleet.taints import CORDON, KEEPS_AWAY, taints_of, tolerates, untolerated
from syncpod.lifecycle.node_affinity import matches_node, preference
from syncpod.pod import Pod
from syncpod.pod.amounts import requested_amounts
from syncpod.pod.host_ports import host_ports, is_taken
from syncpod.pod.limits import limited_resources

GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
UNSCHEDULABLE_NODE: Final = "node(s) were unschedulable"
TWO_MACHINES: Final = "node(s) had two machines answering"
OTHER_NAME: Final = "node(s) didn't match the requested node name"
TAINTED: Final = "node(s) had untolerated taint(s)"
AFFINITY_MISMATCH: Final = "node(s) didn't match Pod's node affinity/selector"
NO_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
NO_LIMITS: Final = "node(s) couldn't enforce limits"
NAME_TAKEN: Final = "node(s) had a pod of that name"
NO_NODES: Final = "no nodes available to schedule pods"

_OF_TAINTS, _OF_NODE_AFFINITY, _OF_ROOM, _OF_SPREAD, _OF_NEIGHBORS = 3, 2, 1, 2, 2
"""The weights of the scores."""


@dataclass(frozen=True)
class NodeFit:
    """The verdict on one node for a pod: the reasons against it, or how well the pod fits there."""

    node: str
    reasons: tuple[str, ...] = ()
    """Why the pod may not be there, in the scheduler's words; empty if it may."""
    detail: str = ""
    """Details that the reasons leave out, such as the taint or the numbers."""
    score: int = 0
    """Higher is better; 0 for a node that is refused."""

    @property
    def fits(self) -> bool:
        """Whether the pod may be there."""
        return not self.reasons

    def __str__(self) -> str:
        """Write it as one line about the node."""
        if self.fits:
            return f"{self.node}: fits, score {self.score}"
        return f"{self.node}: {', '.join(self.reasons)}{f' ({self.detail})' if self.detail else ''}"


@dataclass(frozen=True)
class Placement:
    """The node that a pod goes to, and how it fits on every node, sorted by name."""

    node: str
    """The node's name; "" if the pod fits on no node."""
    nodes: tuple[NodeFit, ...]
    summary: str
    """The result in kube-scheduler's words: ``0/4 nodes are available: 3 Insufficient cpu, 1 node(s) were
    unschedulable.``"""


def place(pod: Pod, nodes: Iterable[NodeOffer], *, owner: str = "") -> Placement:
    """Choose a node for a defaulted pod. The order of the nodes does not matter.

    `owner` is the workflow id of the pod's workload. Pods of one owner are kept apart unless the pod has spread
    constraints of its own. Raises ValueError for an invalid quantity, which validation refuses earlier.
    """
    offers = sorted(nodes, key=lambda node: node.name)
    if pod.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        fits = tuple(NodeFit(node.name, (GATED,), gates) for node in offers)
        return Placement("", fits, f"{GATED}: {gates}")
    if not offers:
        return Placement("", (), NO_NODES)
    filters = _Filters(pod, owner, offers)
    refused = {node.name: fit for node in offers if (fit := filters.refusal(node)) is not None}
    fitting = [node for node in offers if node.name not in refused]
    scores = {node.name: score for node, score in zip(fitting, filters.scores(fitting), strict=True)}
    fits = tuple(refused.get(node.name) or NodeFit(node.name, score=scores[node.name]) for node in offers)
    if not fitting:
        return Placement("", fits, _summary(fits))
    best = min(fitting, key=lambda node: (-scores[node.name], node.crowd, _tie_breaker(pod, node.name), node.name))
    return Placement(best.name, fits, f"{len(fitting)}/{len(offers)} nodes are available.")


def pod_there(pod: Pod, owner: str = "") -> PodThere:
    """Return the part of a placed pod that matters for the placement of other pods."""
    namespace = pod.metadata.namespace or "default"
    apart_from = own_anti_affinity(pod, namespace)
    return PodThere(namespace, pod.metadata.name, pod.metadata.labels, owner, apart_from=apart_from)


def with_pod(node: NodeOffer, pod: Pod, owner: str = "") -> NodeOffer:
    """Return what a node offers once a pod is placed there."""
    return without_room_of(replace(node, pods=(*node.pods, pod_there(pod, owner))), pod)


def without_room_of(node: NodeOffer, pod: Pod) -> NodeOffer:
    """Return the offer of a node, less the room that a pod takes. Raises ValueError for an invalid quantity."""
    taken = Counter(node.taken)
    taken.update(requested_amounts(pod))
    return replace(node, taken=dict(taken), ports=(*node.ports, *host_ports(pod)))


def refusal(pod: Pod, node: NodeOffer, nodes: Iterable[NodeOffer] = ()) -> NodeFit | None:
    """Return why a pod may not be on one node; None if it may.

    `nodes` are the other nodes, for rules that span several, such as spread and affinity.
    """
    others = [one for one in nodes if one.name != node.name]
    return _Filters(pod, "", [*others, node]).refusal(node)


class _Filters:
    """The filters and scores for one pod."""

    def __init__(self, pod: Pod, owner: str, nodes: Sequence[NodeOffer]) -> None:
        namespace = pod.metadata.namespace or "default"
        self._pod = pod
        self._wanted = requested_amounts(pod)
        self._ports = host_ports(pod)
        self._limited = limited_resources(pod)
        self._spread = Spread(pod, namespace, owner, nodes)
        self._neighbors = Neighbors(pod, namespace, nodes)

    def refusal(self, node: NodeOffer) -> NodeFit | None:
        """Return the reasons of the first filter that refuses a node."""
        spec = self._pod.spec
        if node.unschedulable and not any(tolerates(one, CORDON) for one in spec.tolerations):
            return NodeFit(node.name, (UNSCHEDULABLE_NODE,), "it is cordoned")
        if node.doubled:
            return NodeFit(node.name, (TWO_MACHINES,), f"two machines answer as {node.name}")
        if spec.node_name and spec.node_name != node.name:
            return NodeFit(node.name, (OTHER_NAME,), f"spec.nodeName: {spec.node_name}")
        if node.presence == "Unknown":
            return NodeFit(node.name, (TAINTED,), "the fleet receives no reports from the node")
        if (taint := untolerated(taints_of(node), spec.tolerations, KEEPS_AWAY)) is not None:
            return NodeFit(node.name, (TAINTED,), f"taint {taint}")
        if not matches_node(self._pod, node.name, node.labels):
            return NodeFit(node.name, (AFFINITY_MISMATCH,))
        if is_taken(self._ports, node.ports):
            return NodeFit(node.name, (NO_PORTS,))
        if unenforced := sorted(self._limited & node.unenforced_limits):
            return NodeFit(node.name, (NO_LIMITS,), f"limits of {', '.join(unenforced)}")
        if missing := list(insufficient(self._wanted, node)):
            return NodeFit(node.name, tuple(reason for reason, _ in missing), "; ".join(said for _, said in missing))
        if self._pod.metadata.name in node.namesakes:
            return NodeFit(node.name, (NAME_TAKEN,), f"another owner's pod there is called {self._pod.metadata.name}")
        if reason := self._spread.refusal(node) or self._neighbors.refusal(node):
            return NodeFit(node.name, (reason,))
        return None

    def scores(self, fitting: Sequence[NodeOffer]) -> list[int]:
        """Return the weighted sum of all scores for each node that passes the filters."""
        tolerations = [one for one in self._pod.spec.tolerations if one.effect in (None, "PreferNoSchedule")]
        shunned = [
            sum(
                taint.effect == "PreferNoSchedule" and not any(tolerates(one, taint) for one in tolerations)
                for taint in node.taints
            )
            for node in fitting
        ]
        preferred = [preference(self._pod, node.name, node.labels) for node in fitting]
        parts = (
            (_OF_TAINTS, [100 - each for each in _scaled_to_highest(shunned)]),
            (_OF_NODE_AFFINITY, _scaled_to_highest(preferred)),
            (_OF_ROOM, [least_allocated(self._wanted, node) for node in fitting]),
            (_OF_SPREAD, self._spread.scores(fitting)),
            (_OF_NEIGHBORS, _scaled_to_span(list(map(self._neighbors.score, fitting)))),
        )
        return [sum(weight * scores[index] for weight, scores in parts) for index in range(len(fitting))]


def _scaled_to_highest(scores: list[int]) -> list[int]:
    """Scale scores so that the highest is 100 (helper.DefaultNormalizeScore)."""
    most = max(scores, default=0)
    return [100 * score // most for score in scores] if most else [0] * len(scores)


def _scaled_to_span(scores: list[int]) -> list[int]:
    """Scale scores so that the lowest is 0 and the highest 100 (interpodaffinity/scoring.go, NormalizeScore)."""
    least, most = min(scores, default=0), max(scores, default=0)
    return [100 * (score - least) // (most - least) for score in scores] if most > least else [0] * len(scores)


def _summary(fits: Sequence[NodeFit]) -> str:
    """Count each reason, and sort the counts as text, as FitError.Error does."""
    counts = Counter(reason for fit in fits for reason in fit.reasons)
    reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{len(fits)} nodes are available: {', '.join(reasons)}."


def _tie_breaker(pod: Pod, node: str) -> str:
    """Return a key that decides between equal nodes: it looks random, but is always the same for a pod and a node."""
    return hashlib.sha256(f"{pod.metadata.namespace}/{pod.metadata.name}\0{node}".encode()).hexdigest()
