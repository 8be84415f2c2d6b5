"""The spread of pods over zones, machines or any other label of nodes.

Mirrors pkg/scheduler/framework/plugins/podtopologyspread, v1.36, with its default constraints: pods of a workload
without constraints of its own are spread over machines and zones as well as possible. Difference: these defaults count
the pods that the fleet has recorded for the workload; a cluster finds them by Services and their selectors. As in a
cluster, pods of an earlier template do not count: they end in the rollout, and the spread of the new pods must not
depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Final

from syncpod.fleet.offers import NodeOffer, PodThere
from syncpod.fleet.revisions import revision_in
from syncpod.fleet.selectors import narrowed, selects
from syncpod.fleet.taints import KEEPS_AWAY, taints_of, untolerated
from syncpod.lifecycle.node_affinity import matches_node
from syncpod.pod import LabelSelector, Pod, TopologySpreadConstraint

NO_LABEL: Final = "node(s) didn't match pod topology spread constraints (missing required label)"
TOO_MANY: Final = "node(s) didn't match pod topology spread constraints"

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

_DEFAULTS: Final = (
    TopologySpreadConstraint(topology_key=HOSTNAME, max_skew=3, when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(topology_key=ZONE, max_skew=5, when_unsatisfiable="ScheduleAnyway"),
)
_PRECISION: Final = Context(prec=12)
"""The precision of logarithms. Decimal logarithms are the same on every machine, unlike floating-point ones."""


@dataclass(frozen=True)
class _Counted:
    """One constraint, with the number of pods that it selects in each domain of its topology."""

    rule: TopologySpreadConstraint
    counts: Mapping[str, int]
    counts_itself: bool

    @property
    def least(self) -> int:
        """The lowest number of pods in a domain; 0 if there are fewer domains than the constraint requires."""
        few = len(self.counts) < (self.rule.min_domains or 1)
        return 0 if few else min(self.counts.values(), default=0)


class Spread:
    """The constraints of a pod, counted over all nodes."""

    def __init__(self, pod: Pod, namespace: str, owner: str, nodes: Sequence[NodeOffer]) -> None:
        rules = pod.spec.topology_spread_constraints
        self._hard = _counted(
            [one for one in rules if one.when_unsatisfiable == "DoNotSchedule"], pod, namespace, nodes
        )
        soft = [one for one in rules if one.when_unsatisfiable == "ScheduleAnyway"]
        self._needs_every_label = bool(rules)
        if rules or not owner:
            self._soft = _counted(soft, pod, namespace, nodes)
        else:
            self._soft = _counted_of_owner(pod, owner, nodes)

    def refusal(self, node: NodeOffer) -> str:
        """Return why the pod may not be on a node, in the scheduler's words; "" if it may."""
        for each in self._hard:
            value = node.labels.get(each.rule.topology_key)
            if value is None:
                return NO_LABEL
            if each.counts.get(value, 0) + each.counts_itself - each.least > each.rule.max_skew:
                return TOO_MANY
        return ""

    def scores(self, nodes: Sequence[NodeOffer]) -> list[int]:
        """Return a score from 0 to 100 for each of the nodes that the pod may be on; all 0 without constraints."""
        if not self._soft:
            return [0] * len(nodes)
        crowds = [self._crowd(node, nodes) for node in nodes]
        known = [crowd for crowd in crowds if crowd is not None]
        most, least = max(known, default=0), min(known, default=0)
        return [0 if crowd is None else 100 if most == 0 else 100 * (most + least - crowd) // most for crowd in crowds]

    def _crowd(self, node: NodeOffer, nodes: Sequence[NodeOffer]) -> int | None:
        """Return the weighted number of pods in a node's domains; None if the node lacks a required label."""
        keys = [each.rule.topology_key for each in self._soft]
        if self._needs_every_label and any(key not in node.labels for key in keys):
            return None
        total = Decimal(0)
        for each in self._soft:
            if (value := node.labels.get(each.rule.topology_key)) is not None:
                domains = len({one.labels.get(each.rule.topology_key) for one in nodes})
                weight = _PRECISION.ln(Decimal(domains + 2))
                total += each.counts.get(value, 0) * weight + each.rule.max_skew - 1
        return round(total)


def _counted(
    rules: Sequence[TopologySpreadConstraint], pod: Pod, namespace: str, nodes: Sequence[NodeOffer]
) -> list[_Counted]:
    keys = [rule.topology_key for rule in rules]
    eligible = [node for node in nodes if all(key in node.labels for key in keys)]
    found = []
    for rule in rules:
        selector = narrowed(rule.label_selector, pod.metadata.labels, rule.match_label_keys)
        counted = [node for node in eligible if _takes_part(rule, pod, node)]
        counts = _counts(rule.topology_key, counted, _selected(selector, namespace))
        found.append(_Counted(rule, counts, selects(selector, pod.metadata.labels)))
    return found


def _selected(selector: LabelSelector | None, namespace: str) -> Callable[[PodThere], bool]:
    return lambda there: not there.leaving and there.namespace == namespace and selects(selector, there.labels)


def _counted_of_owner(pod: Pod, owner: str, nodes: Sequence[NodeOffer]) -> list[_Counted]:
    revision = revision_in(pod.metadata.labels)

    def is_alike(there: PodThere) -> bool:
        return not there.leaving and there.owner == owner and revision_in(there.labels) == revision

    return [_Counted(rule, _counts(rule.topology_key, nodes, is_alike), True) for rule in _DEFAULTS]


def _counts(key: str, nodes: Iterable[NodeOffer], is_meant: Callable[[PodThere], bool]) -> Mapping[str, int]:
    """Return the number of pods in each domain of the nodes, also in empty ones."""
    counts: dict[str, int] = {}
    for node in nodes:
        if (value := node.labels.get(key)) is not None:
            counts[value] = counts.get(value, 0) + sum(map(is_meant, node.pods))
    return counts


def _takes_part(rule: TopologySpreadConstraint, pod: Pod, node: NodeOffer) -> bool:
    """Say whether a constraint counts a node. By default it counts the nodes that the pod's node affinity matches."""
    if rule.node_affinity_policy != "Ignore" and not matches_node(pod, node.name, node.labels):
        return False
    if rule.node_taints_policy != "Honor":
        return True
    return not node.doubled and untolerated(taints_of(node), pod.spec.tolerations, KEEPS_AWAY) is None
