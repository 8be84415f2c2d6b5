"""The decisions of each kind of workload: one object for a Deployment, a DaemonSet and a Pod by itself.

A new kind is its row in `workload_traits`, its document and the object that reads it in `workload_documents`, and its
class here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from syncpod.fleet.bare_pods import decide_bare, placement_changed
from syncpod.fleet.daemons import decide_daemons, standing
from syncpod.fleet.members import Member
from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.rollout import RolloutState, WorkloadDecision, decide
from syncpod.fleet.workload_documents import DaemonSet, Deployment, Workload, lost_rule, template_of
from syncpod.fleet.workload_pods import daemon_rollout_spec_of, grace_of, pod_of, rollout_spec_of
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


def _other_selector(before: Deployment | DaemonSet, after: Deployment | DaemonSet) -> str:
    changed = before.spec.selector != after.spec.selector
    return "spec.selector: must not be changed; delete the workload, and apply it again" if changed else ""


class _Deployments(WorkloadKind[Deployment]):
    def decide(self, workload: Deployment, at: Situation, now: datetime) -> WorkloadDecision:
        return decide(replace(rollout_spec_of(workload), paused=at.is_paused), at.members, at.rollout, now)

    def fixed(self, before: Deployment, after: Deployment, _at: Situation) -> str:
        return _other_selector(before, after)


class _DaemonSets(WorkloadKind[DaemonSet]):
    def decide(self, workload: DaemonSet, at: Situation, now: datetime) -> WorkloadDecision:
        if at.nodes is None:
            return WorkloadDecision(at.rollout, says="the nodes have not been surveyed yet")
        pod = pod_of(workload, workload.spec.template, 0)
        standings = {node.name: standing(pod, node) for node in at.nodes}
        return decide_daemons(daemon_rollout_spec_of(workload), standings, at.members, at.rollout, now)

    def fixed(self, before: DaemonSet, after: DaemonSet, _at: Situation) -> str:
        return _other_selector(before, after)


class _LonePods(WorkloadKind[Pod]):
    def decide(self, workload: Pod, at: Situation, now: datetime) -> WorkloadDecision:
        return decide_bare(lost_rule(workload), grace_of(template_of(workload)), at.members, at.rollout, now)

    def fixed(self, before: Pod, after: Pod, at: Situation) -> str:
        path = placement_changed(before, after) if at.is_placed else ""
        return f"{path}: must not be changed once a node is chosen; delete the pod, and apply it again" if path else ""


_KINDS: Final[dict[str, WorkloadKind[Any]]] = {
    "Deployment": _Deployments(),
    "DaemonSet": _DaemonSets(),
    "Pod": _LonePods(),
}


def kind_of(workload: Workload) -> WorkloadKind[Any]:
    """Return the object that decides for a workload."""
    return _KINDS[workload.kind]
