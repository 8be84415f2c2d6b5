"""Checks of fields for a scheduler, so that a manifest that passes here also passes in a cluster."""

import re
from collections.abc import Iterator

from syncpod.pod.meta import LabelSelector, LabelSelectorRequirement
from syncpod.pod.problems import Problem
from syncpod.pod.scheduling import (
    Affinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    Toleration,
    TopologySpreadConstraint,
)
from syncpod.pod.validation import syntax
from syncpod.pod.validation.metadata import check_label_values, check_selector

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_FIELD = "metadata.name"
_LARGEST_VALUE = 2**63 - 1
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)")


def check_tolerations(tolerations: tuple[Toleration, ...], path: str) -> Iterator[Problem]:
    """Check tolerations of taints."""
    for index, toleration in enumerate(tolerations):
        here = f"{path}[{index}]"
        if toleration.key and (wrong := syntax.qualified_name(toleration.key)):
            yield Problem(f"{here}.key", wrong)
        if not toleration.key and toleration.operator != "Exists":
            yield Problem(f"{here}.operator", "must be Exists where key is empty")
        if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
            yield Problem(f"{here}.effect", "must be NoExecute where tolerationSeconds is set")
        if toleration.operator == "Exists" and toleration.value:
            yield Problem(f"{here}.value", "must not be set with operator Exists")
        elif toleration.operator in ("Lt", "Gt"):
            if not _is_int64(toleration.value):
                yield Problem(f"{here}.value", f"must be an integer of 64 bits with operator {toleration.operator}")
        elif wrong := syntax.label_value(toleration.value):
            yield Problem(f"{here}.value", wrong)


def check_affinity(affinity: Affinity | None, path: str) -> Iterator[Problem]:
    """Check affinity to nodes and pods, if there is any."""
    if affinity is None:
        return
    if (nodes := affinity.node_affinity) is not None:
        here = f"{path}.nodeAffinity"
        if (required := nodes.required_during_scheduling_ignored_during_execution) is not None:
            terms = f"{here}.{_REQUIRED}.nodeSelectorTerms"
            if not required.node_selector_terms:
                yield Problem(terms, "required: at least one term")
            for index, term in enumerate(required.node_selector_terms):
                yield from _check_node_term(term, f"{terms}[{index}]", any_value=False)
        for index, preferred in enumerate(nodes.preferred_during_scheduling_ignored_during_execution):
            place = f"{here}.{_PREFERRED}[{index}]"
            yield from _check_weight(preferred.weight, place)
            # As in the API server, an impossible value of a label is accepted here: it just never matches.
            yield from _check_node_term(preferred.preference, f"{place}.preference", any_value=True)
    yield from _check_pod_affinity(affinity.pod_affinity, f"{path}.podAffinity")
    yield from _check_pod_affinity(affinity.pod_anti_affinity, f"{path}.podAntiAffinity")


def check_topology_spread(constraints: tuple[TopologySpreadConstraint, ...], path: str) -> Iterator[Problem]:
    """Check topology spread constraints, which must differ in topology or in whenUnsatisfiable."""
    seen: set[tuple[str, str | None]] = set()
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        if constraint.max_skew <= 0:
            yield Problem(f"{here}.maxSkew", "must be greater than 0")
        if not constraint.topology_key:
            yield Problem(f"{here}.topologyKey", "required")
        if constraint.when_unsatisfiable is None:
            yield Problem(f"{here}.whenUnsatisfiable", "required")
        kind = (constraint.topology_key, constraint.when_unsatisfiable)
        if kind in seen:
            yield Problem(here, f"topologyKey {kind[0]!r} with whenUnsatisfiable {kind[1]} is there twice")
        seen.add(kind)
        if constraint.min_domains is not None:
            if constraint.min_domains <= 0:
                yield Problem(f"{here}.minDomains", "must be greater than 0")
            if constraint.when_unsatisfiable != "DoNotSchedule":
                yield Problem(f"{here}.minDomains", "may be set only with whenUnsatisfiable: DoNotSchedule")
        yield from _check_label_keys(constraint.match_label_keys, (), constraint.label_selector, here)
        yield from check_selector(constraint.label_selector, f"{here}.labelSelector")


def _check_node_term(term: NodeSelectorTerm, path: str, *, any_value: bool) -> Iterator[Problem]:
    for index, requirement in enumerate(term.match_expressions):
        yield from _check_node_label(requirement, f"{path}.matchExpressions[{index}]", any_value)
    for index, requirement in enumerate(term.match_fields):
        yield from _check_node_field(requirement, f"{path}.matchFields[{index}]")


def _check_node_label(requirement: NodeSelectorRequirement, path: str, any_value: bool) -> Iterator[Problem]:
    if wrong := syntax.qualified_name(requirement.key):
        yield Problem(f"{path}.key", wrong)
    count = len(requirement.values)
    match requirement.operator:
        case None:
            yield Problem(f"{path}.operator", "required")
        case "In" | "NotIn" if not count:
            yield Problem(f"{path}.values", f"required with operator {requirement.operator}")
        case "Exists" | "DoesNotExist" if count:
            yield Problem(f"{path}.values", f"must not be set with operator {requirement.operator}")
        case "Gt" | "Lt" if count != 1:
            yield Problem(f"{path}.values", f"must be one number with operator {requirement.operator}")
    if not any_value:
        yield from check_label_values(requirement.values, f"{path}.values")


def _check_node_field(requirement: NodeSelectorRequirement, path: str) -> Iterator[Problem]:
    """Check a condition on a node's field, which can only be the name."""
    if requirement.key != _NODE_FIELD:
        yield Problem(f"{path}.key", f"must be {_NODE_FIELD}")
    if requirement.operator not in ("In", "NotIn"):
        yield Problem(f"{path}.operator", "must be In or NotIn")
    elif len(requirement.values) != 1:
        yield Problem(f"{path}.values", "must be one name")
    for index, name in enumerate(requirement.values):
        if requirement.key == _NODE_FIELD and (wrong := syntax.dns_subdomain(name)):
            yield Problem(f"{path}.values[{index}]", wrong)


def _check_pod_affinity(affinity: PodAffinity | PodAntiAffinity | None, path: str) -> Iterator[Problem]:
    if affinity is None:
        return
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        yield from _check_pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _check_weight(weighted.weight, here)
        yield from _check_pod_term(weighted.pod_affinity_term, f"{here}.podAffinityTerm")


def _check_pod_term(term: PodAffinityTerm, path: str) -> Iterator[Problem]:
    if wrong := syntax.qualified_name(term.topology_key) if term.topology_key else "required":
        yield Problem(f"{path}.topologyKey", wrong)
    for index, namespace in enumerate(term.namespaces):
        if wrong := syntax.dns_label(namespace):
            yield Problem(f"{path}.namespaces[{index}]", wrong)
    yield from _check_label_keys(term.match_label_keys, term.mismatch_label_keys, term.label_selector, path)
    yield from check_selector(term.label_selector, f"{path}.labelSelector")
    yield from check_selector(term.namespace_selector, f"{path}.namespaceSelector")


def _check_label_keys(
    match: tuple[str, ...], mismatch: tuple[str, ...], selector: LabelSelector | None, path: str
) -> Iterator[Problem]:
    """Check keys whose values come from the pod's own labels (ValidateMatchLabelKeysAndMismatchLabelKeys).

    Before validation the API server adds a condition with one value to the selector for each of `matchLabelKeys`. Its
    output contains these conditions, and is accepted.
    """
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        here = f"{path}.{name}"
        if keys and selector is None:
            yield Problem(here, "may be set only with labelSelector")
        for index, key in enumerate(keys):
            if wrong := syntax.qualified_name(key):
                yield Problem(f"{here}[{index}]", wrong)
    selected: set[str] = set()
    if selector is not None:
        selected = {*selector.match_labels, *(one.key for one in selector.match_expressions if not _is_merged(one))}
    for index, key in enumerate(match):
        if key in selected or key in mismatch:
            other = "labelSelector" if key in selected else "mismatchLabelKeys"
            yield Problem(f"{path}.matchLabelKeys[{index}]", f"must not be in {other} too")


def _check_weight(weight: int, path: str) -> Iterator[Problem]:
    if not 1 <= weight <= 100:
        yield Problem(f"{path}.weight", "must be between 1 and 100")


def _is_merged(requirement: LabelSelectorRequirement) -> bool:
    return requirement.operator == "In" and len(requirement.values) == 1


def _is_int64(text: str) -> bool:
    """Say whether a text is a decimal 64-bit integer without plus sign and leading zeros."""
    return (
        len(text) <= len(str(-_LARGEST_VALUE))
        and bool(_DECIMAL.fullmatch(text))
        and text != "-0"
        and (-_LARGEST_VALUE - 1 <= int(text) <= _LARGEST_VALUE)
    )


def is_default_toleration(toleration: Toleration) -> bool:
    """Say whether this is a toleration that an API server adds to every pod."""
    return (
        toleration.key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        and toleration.operator == "Exists"
        and toleration.effect == "NoExecute"
    )
