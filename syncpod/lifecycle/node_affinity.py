"""Whether a node is one that a pod asks for: nodeSelector and required node affinity.

Mirrors component-helpers, scheduling/corev1/nodeaffinity/nodeaffinity.go, v0.36, GetRequiredNodeAffinity and Match, as
the kubelet calls it when it admits a pod (pkg/scheduler/eventhandlers.go, v1.36, AdmissionCheck).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from syncpod.pod import NodeSelectorRequirement, NodeSelectorTerm, Pod

REASON: Final = "NodeAffinity"
MESSAGE: Final = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"

_NAME: Final = "metadata.name"
"""The one field of a node that a pod can ask for."""
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")


def matches_node(pod: Pod, name: str, labels: Mapping[str, str]) -> bool:
    """Say whether a pod may run on the node with this name and these labels.

    The node must have all labels of the nodeSelector, and match one term of the required affinity. An empty term
    matches no node. Preferred terms are ignored: only a scheduler uses them.
    """
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or any(_holds(term, name, labels) for term in required.node_selector_terms)


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
    return all(_meets(each, labels) for each in term.match_expressions) and all(
        _meets(each, {_NAME: name}) for each in term.match_fields
    )


def _meets(requirement: NodeSelectorRequirement, found: Mapping[str, str]) -> bool:
    """Say whether labels, or fields, meet one requirement (apimachinery, labels/selector.go, Requirement.Matches)."""
    value = found.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    """Say whether a label is a whole number above (Gt) or below (Lt) the number in the requirement."""
    number, bound = _number(value), _number(requirement.values[0] if len(requirement.values) == 1 else None)
    if number is None or bound is None:
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def _number(text: str | None) -> int | None:
    """Return the text as a signed 64-bit number, or None if it is not one (strconv.ParseInt)."""
    if text is None or not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
