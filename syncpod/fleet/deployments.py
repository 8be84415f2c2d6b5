"""Deployments (apps/v1): their documents, and what each requests.

Mirrors pkg/apis/apps/v1/defaults.go and pkg/apis/apps/validation/validation.go, v1.36. `syncpod.fleet.rollout` decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from typing_extensions import override

from syncpod.fleet.rollout import RolloutSpec, WorkloadDecision, decide
from syncpod.fleet.sizes import surge_and_unavailable
from syncpod.fleet.workload_documents import PodTemplate, check_sizes, is_none, or_default
from syncpod.fleet.workload_kinds import Situation, TemplatedKind
from syncpod.fleet.workload_pods import MOST_REPLICAS, grace_of, revision_of
from syncpod.fleet.workload_traits import DEPLOYMENT
from syncpod.pod import LabelSelector, ObjectMeta, Problem
from syncpod.pod.wire import EMPTY_IS_UNSET, Flag, Int32, IntOrString, Model

_NO_DEADLINE: Final = 2**31 - 1
"""The value of `progressDeadlineSeconds` that means no deadline."""


class RollingUpdateDeployment(Model):
    """How many pods a rollout may have above and below its number of replicas."""

    max_surge: IntOrString | None = None
    max_unavailable: IntOrString | None = None


class DeploymentStrategy(Model):
    """How pods are replaced by those of a new template."""

    type: Annotated[Literal["RollingUpdate", "Recreate"] | None, EMPTY_IS_UNSET] = None
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(Model):
    """The number of pods, their template, and how they are replaced."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplate = Field(default_factory=PodTemplate)
    strategy: DeploymentStrategy = Field(default_factory=DeploymentStrategy)
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None
    paused: Flag = False
    progress_deadline_seconds: Int32 | None = None


class Deployment(Model):
    """A number of identical pods."""

    api_version: Literal["apps/v1"]
    kind: Literal["Deployment"]
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: DeploymentSpec = Field(default_factory=DeploymentSpec)
    status: dict[str, Any] = Field(default_factory=dict)


class Deployments(TemplatedKind[Deployment]):
    """The kind of workload that keeps a number of identical pods."""

    traits = DEPLOYMENT
    model = Deployment

    @override
    def with_defaults(self, workload: Deployment) -> Deployment:
        spec, strategy = workload.spec, workload.spec.strategy
        rolling = strategy.rolling_update or RollingUpdateDeployment()
        if (strategy.type or "RollingUpdate") == "RollingUpdate":
            strategy = DeploymentStrategy(
                type="RollingUpdate",
                rolling_update=RollingUpdateDeployment(
                    max_surge=or_default(rolling.max_surge, "25%"),
                    max_unavailable=or_default(rolling.max_unavailable, "25%"),
                ),
            )
        deadline = spec.progress_deadline_seconds
        filled = {
            "replicas": 1 if spec.replicas is None else spec.replicas,
            "strategy": strategy,
            "revision_history_limit": 10 if spec.revision_history_limit is None else spec.revision_history_limit,
            "progress_deadline_seconds": 600 if deadline is None else deadline,
        }
        return workload.model_copy(update={"spec": spec.model_copy(update=filled)})

    @override
    def check(self, workload: Deployment) -> Iterator[Problem]:
        spec = workload.spec
        if spec.replicas is not None and spec.replicas < 0:
            yield Problem("spec.replicas", "must not be negative")
        elif spec.replicas is not None and spec.replicas > MOST_REPLICAS:
            yield Problem("spec.replicas", f"must be no more than {MOST_REPLICAS}, is {spec.replicas}")
        deadline = spec.progress_deadline_seconds
        if deadline is not None and deadline < 0:
            yield Problem("spec.progressDeadlineSeconds", "must not be negative")
        elif deadline is not None and deadline <= spec.min_ready_seconds:
            yield Problem("spec.progressDeadlineSeconds", "must be greater than minReadySeconds")
        rolling, path = spec.strategy.rolling_update, "spec.strategy.rollingUpdate"
        if spec.strategy.type == "Recreate":
            if rolling is not None:
                yield Problem(path, "may not be specified when strategy `type` is 'Recreate'")
            return
        surge, unavailable = (rolling.max_surge, rolling.max_unavailable) if rolling is not None else (None, None)
        problems = [*check_sizes(surge, unavailable, path)]
        yield from problems
        if not problems and is_none(surge) and is_none(unavailable):
            yield Problem(f"{path}.maxUnavailable", "may not be 0 when `maxSurge` is 0")

    @override
    def decide(self, workload: Deployment, at: Situation, now: datetime) -> WorkloadDecision:
        spec = replace(self.rollout_spec(workload), paused=at.is_paused)
        return decide(spec, at.members, at.rollout, now, self.free_numbers(at))

    @override
    def desired(self, workload: Deployment, decided: int | None) -> int:
        return 1 if workload.spec.replicas is None else workload.spec.replicas

    def rollout_spec(self, deployment: Deployment) -> RolloutSpec:
        """Return the rollout that an admitted Deployment specifies."""
        spec, rolling = deployment.spec, deployment.spec.strategy.rolling_update
        replicas = self.desired(deployment, None)
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
            deadline=None if seconds in (None, _NO_DEADLINE) else timedelta(seconds=seconds or 0),
            when_lost=self.lost_rule(deployment),
            grace=grace_of(spec.template),
        )
