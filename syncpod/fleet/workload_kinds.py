"""The decisions of each kind of workload: one object for a Deployment, a DaemonSet and a Pod by itself.

A new kind needs its row in `workload_traits`, its document and the object that reads it in `workload_documents`, and
its class here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from typing_extensions import override

from syncpod.fleet.bare_pods import decide_bare, placement_changed
from syncpod.fleet.daemons import DaemonRolloutSpec, decide_daemons, standing, with_daemon_tolerations
from syncpod.fleet.members import Member
from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.rollout import RolloutSpec, RolloutState, WorkloadDecision, decide
from syncpod.fleet.sizes import surge_and_unavailable
from syncpod.fleet.workload_documents import (
    NO_DEADLINE,
    DaemonSet,
    Deployment,
    PodTemplate,
    Workload,
    lost_rule,
    template_of,
)
from syncpod.fleet.workload_pods import grace_of, made_from, revision_of
from syncpod.pod import Pod


@dataclass(frozen=True)
class Situation:
    """What a workload's decision depends on besides its document."""

    members: Sequence[Member]
    rollout: RolloutState
    is_paused: bool = False
    nodes: Sequence[NodeOffer] | None = None
    """The nodes of the last survey; None = there was none."""
    is_placed: bool = False
    """Whether a node has been chosen for one of its pods."""


Document = TypeVar("Document", Deployment, DaemonSet, Pod)


class WorkloadKind(ABC, Generic[Document]):
    """One kind of workload."""

    @abstractmethod
    def decide(self, workload: Document, at: Situation, now: datetime) -> WorkloadDecision:
        """Decide what the workload does next."""

    @abstractmethod
    def fixed(self, before: Document, after: Document, at: Situation) -> str:
        """Return why an applied document must not follow the one before it; "" if it may."""

    def pod(self, workload: Document, template: PodTemplate, number: int) -> Pod:
        """Return the workload's pod with this number, made from the given template, which may be an earlier one."""
        return made_from(workload, template, number)


def _other_selector(before: Deployment | DaemonSet, after: Deployment | DaemonSet) -> str:
    changed = before.spec.selector != after.spec.selector
    return "spec.selector: must not be changed; delete the workload, and apply it again" if changed else ""


class _Deployments(WorkloadKind[Deployment]):
    @override
    def decide(self, workload: Deployment, at: Situation, now: datetime) -> WorkloadDecision:
        return decide(replace(rollout_spec_of(workload), paused=at.is_paused), at.members, at.rollout, now)

    @override
    def fixed(self, before: Deployment, after: Deployment, _at: Situation) -> str:
        return _other_selector(before, after)


class _DaemonSets(WorkloadKind[DaemonSet]):
    @override
    def decide(self, workload: DaemonSet, at: Situation, now: datetime) -> WorkloadDecision:
        if at.nodes is None:
            return WorkloadDecision(at.rollout, says="the nodes have not been surveyed yet")
        pod = self.pod(workload, workload.spec.template, 0)
        standings = {node.name: standing(pod, node) for node in at.nodes}
        return decide_daemons(daemon_rollout_spec_of(workload), standings, at.members, at.rollout, now)

    @override
    def fixed(self, before: DaemonSet, after: DaemonSet, _at: Situation) -> str:
        return _other_selector(before, after)

    @override
    def pod(self, workload: DaemonSet, template: PodTemplate, number: int) -> Pod:
        return with_daemon_tolerations(made_from(workload, template, number))


class _BarePods(WorkloadKind[Pod]):
    @override
    def decide(self, workload: Pod, at: Situation, now: datetime) -> WorkloadDecision:
        return decide_bare(lost_rule(workload), grace_of(template_of(workload)), at.members, at.rollout, now)

    @override
    def fixed(self, before: Pod, after: Pod, at: Situation) -> str:
        path = placement_changed(before, after) if at.is_placed else ""
        return f"{path}: must not be changed once a node is chosen; delete the pod, and apply it again" if path else ""

    @override
    def pod(self, workload: Pod, template: PodTemplate, number: int) -> Pod:
        return workload


_KINDS: Final[dict[str, WorkloadKind[Any]]] = {
    "Deployment": _Deployments(),
    "DaemonSet": _DaemonSets(),
    "Pod": _BarePods(),
}


def kind_of(workload: Workload) -> WorkloadKind[Any]:
    """Return the object that decides for a workload."""
    return _KINDS[workload.kind]


def pod_of(workload: Workload, template: PodTemplate, number: int) -> Pod:
    """Return a workload's pod with this number, made from the given template, which may be an earlier one.

    A single Pod is returned as it is, whatever the template and the number.
    """
    return kind_of(workload).pod(workload, template, number)


def rollout_spec_of(deployment: Deployment) -> RolloutSpec:
    """Return the rollout that an admitted Deployment specifies."""
    spec, rolling = deployment.spec, deployment.spec.strategy.rolling_update
    replicas = 1 if spec.replicas is None else spec.replicas
    surge, unavailable = (rolling.max_surge, rolling.max_unavailable) if rolling is not None else (0, 0)
    more, fewer = surge_and_unavailable(surge or 0, unavailable or 0, replicas)
    seconds = spec.progress_deadline_seconds
    return RolloutSpec(
        revision=revision_of(spec.template),
        replicas=replicas,
        max_surge=more,
        max_unavailable=fewer,
        recreate=spec.strategy.type == "Recreate",
        paused=spec.paused,
        min_ready=timedelta(seconds=spec.min_ready_seconds),
        deadline=None if seconds in (None, NO_DEADLINE) else timedelta(seconds=seconds or 0),
        when_lost=lost_rule(deployment),
        grace=grace_of(spec.template),
    )


def daemon_rollout_spec_of(daemons: DaemonSet) -> DaemonRolloutSpec:
    """Return the rollout that an admitted DaemonSet specifies."""
    rolling = daemons.spec.update_strategy.rolling_update
    return DaemonRolloutSpec(
        revision=revision_of(daemons.spec.template),
        max_unavailable=(rolling.max_unavailable or 0) if rolling is not None else 1,
        max_surge=(rolling.max_surge or 0) if rolling is not None else 0,
        min_ready=timedelta(seconds=daemons.spec.min_ready_seconds),
    )
