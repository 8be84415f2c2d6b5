"""DaemonSets (apps/v1): their documents, and what each requests.

Mirrors pkg/apis/apps/v1/defaults.go and pkg/apis/apps/validation/validation.go, v1.36. `syncpod.fleet.daemons` decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import override

from syncpod.fleet.daemons import DaemonRolloutSpec, decide_daemons, standing, with_daemon_tolerations
from syncpod.fleet.members import Member
from syncpod.fleet.rollout import Counts, WorkloadDecision
from syncpod.fleet.workload_documents import PodTemplate, check_sizes, is_none, or_default
from syncpod.fleet.workload_kinds import Situation, TemplatedKind
from syncpod.fleet.workload_pods import revision_of
from syncpod.fleet.workload_traits import DAEMON_SET
from syncpod.pod import LabelSelector, ObjectMeta, Pod, Problem
from syncpod.pod.wire import EMPTY_IS_UNSET, Int32, IntOrString, Model


class RollingUpdateDaemonSet(Model):
    """On how many nodes a rollout may have no available pod, or an additional one."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DaemonSetUpdateStrategy(Model):
    """How pods are replaced by those of a new template."""

    type: Annotated[Literal["RollingUpdate", "OnDelete"] | None, EMPTY_IS_UNSET] = None
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(Model):
    """The template of the pod on each node, and how pods are replaced."""

    selector: LabelSelector | None = None
    template: PodTemplate = Field(default_factory=PodTemplate)
    update_strategy: DaemonSetUpdateStrategy = Field(default_factory=DaemonSetUpdateStrategy)
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None


class DaemonSet(Model):
    """One pod on every eligible node."""

    api_version: Literal["apps/v1"]
    kind: Literal["DaemonSet"]
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: DaemonSetSpec = Field(default_factory=DaemonSetSpec)
    status: dict[str, Any] = Field(default_factory=dict)


class DaemonSets(TemplatedKind[DaemonSet]):
    """The kind of workload that keeps a pod on each node."""

    traits = DAEMON_SET
    model = DaemonSet

    @override
    def with_defaults(self, workload: DaemonSet) -> DaemonSet:
        spec, strategy = workload.spec, workload.spec.update_strategy
        rolling = strategy.rolling_update or RollingUpdateDaemonSet()
        if (strategy.type or "RollingUpdate") == "RollingUpdate":
            strategy = DaemonSetUpdateStrategy(
                type="RollingUpdate",
                rolling_update=RollingUpdateDaemonSet(
                    max_surge=or_default(rolling.max_surge, 0), max_unavailable=or_default(rolling.max_unavailable, 1)
                ),
            )
        filled = {
            "update_strategy": strategy,
            "revision_history_limit": 10 if spec.revision_history_limit is None else spec.revision_history_limit,
        }
        return workload.model_copy(update={"spec": spec.model_copy(update=filled)})

    @override
    def check(self, workload: DaemonSet) -> Iterator[Problem]:
        strategy, path = workload.spec.update_strategy, "spec.updateStrategy.rollingUpdate"
        if strategy.type == "OnDelete":
            yield Problem("spec.updateStrategy.type", "not supported yet: OnDelete; must be RollingUpdate")
            return
        rolling = strategy.rolling_update
        surge, unavailable = (rolling.max_surge, rolling.max_unavailable) if rolling is not None else (None, None)
        problems = [*check_sizes(surge, unavailable, path, surge_at_most_all=True)]
        yield from problems
        if problems:
            return
        if not is_none(surge) and not is_none(unavailable):
            yield Problem(f"{path}.maxSurge", "may not be set when maxUnavailable is non-zero")
        elif is_none(surge) and is_none(unavailable):
            yield Problem(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")

    @override
    def pod(self, workload: DaemonSet, template: PodTemplate, number: int) -> Pod:
        return with_daemon_tolerations(super().pod(workload, template, number))

    @override
    def decide(self, workload: DaemonSet, at: Situation, now: datetime) -> WorkloadDecision:
        spec = self.rollout_spec(workload)
        if at.nodes is None:
            return _before_the_survey(spec, at)
        pod = self.pod(workload, workload.spec.template, 0)
        standings = {node.name: standing(pod, node) for node in at.nodes}
        return decide_daemons(spec, standings, at.members, at.rollout, now, self.free_numbers(at), at.unread)

    @override
    def desired(self, workload: DaemonSet, decided: int | None) -> int:
        """Return how many nodes shall have a pod."""
        return decided or 0

    @override
    def replaced_at(self, workload: DaemonSet, member: Member) -> datetime | None:
        """Return None: a DaemonSet's pod belongs to its node, and is not replaced elsewhere."""
        return None

    def rollout_spec(self, daemons: DaemonSet) -> DaemonRolloutSpec:
        """Return the rollout that an admitted DaemonSet specifies."""
        rolling = daemons.spec.update_strategy.rolling_update
        return DaemonRolloutSpec(
            revision=revision_of(daemons.spec.template),
            max_unavailable=(rolling.max_unavailable or 0) if rolling is not None else 1,
            max_surge=(rolling.max_surge or 0) if rolling is not None else 0,
            min_ready=timedelta(seconds=daemons.spec.min_ready_seconds),
        )


def _before_the_survey(spec: DaemonRolloutSpec, at: Situation) -> WorkloadDecision:
    """Decide nothing, and keep the numbers of the last decision: a new run has not surveyed the nodes yet."""
    counts = at.counts if spec.revision == at.rollout.asked else replace(at.counts, updated=0)
    says = "the nodes have not been surveyed yet" if counts.desired is None else "the nodes are being surveyed again"
    # Replay: earlier versions counted nothing here, and wrote the memo when the survey was there.
    return WorkloadDecision(at.rollout, says=says, counts=counts, noted=Counts())
