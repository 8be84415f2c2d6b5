"""Fields for a scheduler: affinity, tolerations, topology spread, gates, resource claims."""

from typing import Annotated

from pydantic import Field

from syncpod.pod.enums import (
    NodeInclusionPolicy,
    NodeSelectorOperator,
    TaintEffect,
    TolerationOperator,
    UnsatisfiableConstraintAction,
)
from syncpod.pod.meta import LabelSelector
from syncpod.pod.wire import EMPTY_IS_UNSET, Int32, Int64, Model


class NodeSelectorRequirement(Model):
    """One condition on a node's label or field."""

    key: str = ""
    operator: NodeSelectorOperator | None = None
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Model):
    """Conditions that must all hold."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Model):
    """Terms, one of which must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Model):
    """A preferred term, with its weight (1 to 100)."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = Field(default_factory=NodeSelectorTerm)


class NodeAffinity(Model):
    """Rules about nodes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Model):
    """Pods, selected by labels and namespaces, and the topology that defines nearness."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Model):
    """A preferred pod affinity term, with its weight (1 to 100)."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = Field(default_factory=PodAffinityTerm)


class PodAffinity(Model):
    """Pods to be near."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(Model):
    """Pods to keep away from."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Model):
    """Rules about nodes and about other pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(Model):
    """The taints that do not keep the pod away: those that match all of these fields."""

    key: str = ""
    operator: Annotated[TolerationOperator | None, EMPTY_IS_UNSET] = None
    value: str = ""
    effect: Annotated[TaintEffect | None, EMPTY_IS_UNSET] = None
    toleration_seconds: Int64 | None = None


class TopologySpreadConstraint(Model):
    """A rule for how evenly pods are spread over the domains of a topology."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: UnsatisfiableConstraintAction | None = None
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: NodeInclusionPolicy | None = None
    node_taints_policy: NodeInclusionPolicy | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(Model):
    """A reason not to schedule the pod yet."""

    name: str = ""


class PodSchedulingGroup(Model):
    """The group of pods that are scheduled together."""

    pod_group_name: str | None = None


class PodResourceClaim(Model):
    """A resource claim that the pod's containers may use."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None
