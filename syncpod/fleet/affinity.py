"""Pod affinity and anti-affinity: which other pods a pod must be near, or away from.

Mirrors pkg/scheduler/framework/plugins/interpodaffinity, v1.36. Difference: the score counts the preferences of the pod
that is being placed, and not those of the pods already on the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from syncpod.fleet.offers import NodeOffer, PodThere
from syncpod.fleet.selectors import narrowed, selects, selects_namespace
from syncpod.pod import Affinity, Pod, PodAffinityTerm

NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
UNWELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"

Domain = tuple[str, str]
"""A label of nodes and its value."""


class Neighbors:
    """The effect of a pod's affinity, and of the anti-affinity of the pods already placed, on every node."""

    def __init__(self, pod: Pod, namespace: str, nodes: Sequence[NodeOffer]) -> None:
        affinity = pod.spec.affinity or Affinity()
        near, apart = affinity.pod_affinity, affinity.pod_anti_affinity
        self._near = _resolved(near.required_during_scheduling_ignored_during_execution if near else (), pod, namespace)
        self._apart = _resolved(
            apart.required_during_scheduling_ignored_during_execution if apart else (), pod, namespace
        )
        self._could_be_first = all(_is_meant(term, namespace, pod.metadata.labels) for term in self._near)
        self._near_to = _domains(self._near, nodes, together=True)
        self._apart_from = _domains(self._apart, nodes, together=False)
        self._unwelcome = {
            (term.topology_key, node.labels[term.topology_key])
            for node in nodes
            for there in node.pods
            for term in there.apart_from
            if term.topology_key in node.labels and _is_meant(term, namespace, pod.metadata.labels)
        }
        self._wishes = [
            (sign * each.weight, term, _counts(term, nodes))
            for sign, rules in ((1, near), (-1, apart))
            for each in (rules.preferred_during_scheduling_ignored_during_execution if rules else ())
            for term in _resolved((each.pod_affinity_term,), pod, namespace)
        ]

    def refusal(self, node: NodeOffer) -> str:
        """Return why the pod may not be on a node, in the scheduler's words; "" if it may."""
        if any(pair in self._unwelcome for pair in node.labels.items()):
            return UNWELCOME
        if not self._is_near(node):
            return NOT_NEAR
        if any(_domain(term, node) in self._apart_from for term in self._apart):
            return NOT_APART
        return ""

    def score(self, node: NodeOffer) -> int:
        """Return a node's score: the weight of each preference, times the number of nearby pods that it applies to."""
        return sum(
            weight * counts.get(domain, 0)
            for weight, term, counts in self._wishes
            if (domain := _domain(term, node)) is not None
        )

    def _is_near(self, node: NodeOffer) -> bool:
        """Say whether a node meets all required terms of the pod's affinity.

        If the pod is the first of a group that must be together, there is no pod to be near yet, and any node with the
        topology's labels will do.
        """
        domains = [_domain(term, node) for term in self._near]
        if not self._near_to and self._could_be_first:
            return None not in domains
        return all(domain in self._near_to for domain in domains)


def own_anti_affinity(pod: Pod, namespace: str) -> tuple[PodAffinityTerm, ...]:
    """Return the required terms of a pod's anti-affinity, with its namespace and labels filled in."""
    rules = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
    return _resolved(rules.required_during_scheduling_ignored_during_execution if rules else (), pod, namespace)


def can_affect(there: PodThere, pod: Pod, namespace: str) -> bool:
    """Say whether a pod already placed can affect the new pod's placement.

    It can if a rule of the new pod applies to the placed pod, or if the placed pod has a required anti-affinity.
    """
    affinity = pod.spec.affinity or Affinity()
    terms: list[PodAffinityTerm] = []
    for rules in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if rules is not None:
            terms += rules.required_during_scheduling_ignored_during_execution
            terms += (each.pod_affinity_term for each in rules.preferred_during_scheduling_ignored_during_execution)
    spread = pod.spec.topology_spread_constraints
    return (
        bool(there.apart_from)
        or any(_means(term, there) for term in _resolved(terms, pod, namespace))
        or (there.namespace == namespace and any(selects(each.label_selector, there.labels) for each in spread))
    )


def _resolved(terms: Iterable[PodAffinityTerm], pod: Pod, namespace: str) -> tuple[PodAffinityTerm, ...]:
    """Return the terms with the pod's namespace and labels filled in, so that they can be read without the pod."""
    return tuple(
        term.model_copy(
            update={
                "namespaces": term.namespaces or (() if term.namespace_selector is not None else (namespace,)),
                "label_selector": narrowed(
                    term.label_selector, pod.metadata.labels, term.match_label_keys, term.mismatch_label_keys
                ),
                "match_label_keys": (),
                "mismatch_label_keys": (),
            }
        )
        for term in terms
    )


def _is_meant(term: PodAffinityTerm, namespace: str, labels: Mapping[str, str]) -> bool:
    """Say whether a resolved term applies to a pod in this namespace with these labels."""
    is_there = namespace in term.namespaces or selects_namespace(term.namespace_selector, namespace)
    return is_there and selects(term.label_selector, labels)


def _means(term: PodAffinityTerm, there: PodThere) -> bool:
    return _is_meant(term, there.namespace, there.labels)


def _domains(terms: Sequence[PodAffinityTerm], nodes: Sequence[NodeOffer], *, together: bool) -> frozenset[Domain]:
    """Return the domains of the pods that a term applies to. With `together`, every term must apply to the pod."""
    found = set()
    for node in nodes:
        for there in node.pods:
            meant = [term for term in terms if _means(term, there)]
            if together and len(meant) < len(terms):
                continue
            found |= {domain for term in meant if (domain := _domain(term, node)) is not None}
    return frozenset(found)


def _counts(term: PodAffinityTerm, nodes: Sequence[NodeOffer]) -> Mapping[Domain, int]:
    """Return the number of pods that a term applies to, for each domain."""
    counts: dict[Domain, int] = {}
    for node in nodes:
        if (domain := _domain(term, node)) is not None:
            counts[domain] = counts.get(domain, 0) + sum(_means(term, there) for there in node.pods)
    return counts


def _domain(term: PodAffinityTerm, node: NodeOffer) -> Domain | None:
    value = node.labels.get(term.topology_key)
    return None if value is None else (term.topology_key, value)
