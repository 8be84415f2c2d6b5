"""Checks of what a scheduler would read, so that a manifest that passes here passes in a cluster."""

from collections.abc import Iterator

from syncpod.pod.problems import Problem
from syncpod.pod.scheduling import (
    Affinity,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    Toleration,
    TopologySpreadConstraint,
)
from syncpod.pod.validation import syntax
from syncpod.pod.validation.metadata import check_selector

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


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
            if not toleration.value.removeprefix("-").isdecimal():
                yield Problem(f"{here}.value", f"must be an integer with operator {toleration.operator}")
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
                yield from _check_node_term(term, f"{terms}[{index}]")
        for index, preferred in enumerate(nodes.preferred_during_scheduling_ignored_during_execution):
            place = f"{here}.{_PREFERRED}[{index}]"
            yield from _check_weight(preferred.weight, place)
            yield from _check_node_term(preferred.preference, f"{place}.preference")
    yield from _check_pod_affinity(affinity.pod_affinity, f"{path}.podAffinity")
    yield from _check_pod_affinity(affinity.pod_anti_affinity, f"{path}.podAntiAffinity")


def check_topology_spread(constraints: tuple[TopologySpreadConstraint, ...], path: str) -> Iterator[Problem]:
    """Check the constraints on spreading."""
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        if constraint.max_skew <= 0:
            yield Problem(f"{here}.maxSkew", "must be greater than 0")
        if not constraint.topology_key:
            yield Problem(f"{here}.topologyKey", "required")
        if constraint.when_unsatisfiable is None:
            yield Problem(f"{here}.whenUnsatisfiable", "required")
        yield from check_selector(constraint.label_selector, f"{here}.labelSelector")


def _check_node_term(term: NodeSelectorTerm, path: str) -> Iterator[Problem]:
    for name, requirements in (("matchExpressions", term.match_expressions), ("matchFields", term.match_fields)):
        for index, requirement in enumerate(requirements):
            here = f"{path}.{name}[{index}]"
            if wrong := syntax.qualified_name(requirement.key):
                yield Problem(f"{here}.key", wrong)
            count = len(requirement.values)
            match requirement.operator:
                case None:
                    yield Problem(f"{here}.operator", "required")
                case "In" | "NotIn" if not count:
                    yield Problem(f"{here}.values", f"required with operator {requirement.operator}")
                case "Exists" | "DoesNotExist" if count:
                    yield Problem(f"{here}.values", f"must not be set with operator {requirement.operator}")
                case "Gt" | "Lt" if count != 1:
                    yield Problem(f"{here}.values", f"must be one number with operator {requirement.operator}")


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
    if not term.topology_key:
        yield Problem(f"{path}.topologyKey", "required")
    yield from check_selector(term.label_selector, f"{path}.labelSelector")
    yield from check_selector(term.namespace_selector, f"{path}.namespaceSelector")


def _check_weight(weight: int, path: str) -> Iterator[Problem]:
    if not 1 <= weight <= 100:
        yield Problem(f"{path}.weight", "must be between 1 and 100")


def is_default_toleration(toleration: Toleration) -> bool:
    """Say whether an API server adds this toleration to every pod by itself."""
    return (
        toleration.key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        and toleration.operator == "Exists"
        and toleration.effect == "NoExecute"
    )
