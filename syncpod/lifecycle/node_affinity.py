"""Checks whether a node satisfies a pod's nodeSelector and its required node affinity.

Mirrors component-helpers, scheduling/corev1/nodeaffinity/nodeaffinity.go, v0.36, GetRequiredNodeAffinity and Match, as
the kubelet calls it when it admits a pod (pkg/scheduler/eventhandlers.go, v1.36, AdmissionCheck).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from syncpod.lifecycle.label_requirements import meets
from syncpod.pod import NodeSelectorTerm, Pod

REASON: Final = "NodeAffinity"
MESSAGE: Final = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"

_NAME: Final = "metadata.name"
"""The one field of a node that a pod can select by."""


def matches_node(pod: Pod, name: str, labels: Mapping[str, str]) -> bool:
    """Say whether a pod may run on the node with this name and these labels.

    The node must have all labels of the nodeSelector, and match one term of the required affinity. An empty term
    matches no node. Preferred terms are ignored: only a scheduler uses them.
    """
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or matches_a_term(required.node_selector_terms, name, labels)


def matches_a_term(terms: Iterable[NodeSelectorTerm], name: str, labels: Mapping[str, str]) -> bool:
    """Say whether the node with this name and these labels meets one of the terms, as pods and volumes have them."""
    return any(_holds(term, name, labels) for term in terms)


def preference(pod: Pod, name: str, labels: Mapping[str, str]) -> int:
    """Return the sum of the weights of the preferred terms that the node with this name and these labels meets.

    Mirrors nodeaffinity.go, v0.36, PreferredSchedulingTerms.Score.
    """
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity is not None else ()
    return sum(each.weight for each in preferred if _holds(each.preference, name, labels))


def _holds(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not (term.match_expressions or term.match_fields):
        return False
    return all(meets(each, labels) for each in term.match_expressions) and all(
        meets(each, {_NAME: name}) for each in term.match_fields
    )
