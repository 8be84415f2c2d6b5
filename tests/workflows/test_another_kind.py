"""A kind that a fleet does not have is one row and one object: its pods are numbered, ordered and replaced in part."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from pydantic import Field
from typing_extensions import override

from syncpod.fleet import workloads
from syncpod.fleet.rollout import Creation, Withdrawal, WorkloadDecision
from syncpod.fleet.workload_documents import PodTemplate
from syncpod.fleet.workload_kinds import Situation, TemplatedKind
from syncpod.fleet.workload_pods import revision_of
from syncpod.fleet.workload_traits import KINDS, Traits
from syncpod.messages.node import PodKey
from syncpod.pod import LabelSelector, ObjectMeta, PodInvalid, Problem
from syncpod.pod.wire import Int32, Model
from tests.fleet.test_workload_kinds import Ordinals
from tests.workflows.test_workload_changes import decide, document, known, report
from workflows.fleet import workload_news, workload_placement, workload_report, workload_updates
from workflows.fleet.workload_state import WorkloadState

NOW = datetime(2026, 7, 1, tzinfo=UTC)
OWNER = "workload/StatefulSet/default/web"


class StatefulSetSpec(Model):
    """A number of pods with ordinals; those from `partition` upwards follow the template."""

    replicas: Int32 = 1
    selector: LabelSelector | None = None
    template: PodTemplate = Field(default_factory=PodTemplate)
    partition: Int32 = 0
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None


class StatefulSet(Model):
    """Pods with an identity."""

    api_version: Literal["apps/v1"]
    kind: Literal["StatefulSet"]
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: StatefulSetSpec = Field(default_factory=StatefulSetSpec)
    status: dict[str, Any] = Field(default_factory=dict)


class StatefulSets(TemplatedKind[StatefulSet]):
    """Makes, replaces and removes one pod at a time: the lowest first, and the highest first."""

    traits = Traits(
        "StatefulSet",
        ("statefulset", "statefulsets", "sts"),
        "apps",
        revision_label="controller-revision-hash",
        names=Ordinals(),
        lost_rules=("wait", "stop-after"),
        lost_why="of whose pods none may run twice",
    )
    model = StatefulSet

    @override
    def with_defaults(self, workload: StatefulSet) -> StatefulSet:
        return workload

    @override
    def check(self, workload: StatefulSet) -> Iterator[Problem]:
        if workload.spec.partition < 0:
            yield Problem("spec.partition", "must not be negative")

    @override
    def desired(self, workload: StatefulSet, decided: int | None) -> int:
        return workload.spec.replicas

    @override
    def decide(self, workload: StatefulSet, at: Situation, now: datetime) -> WorkloadDecision:
        spec, revision = workload.spec, revision_of(workload.spec.template)
        if any(each.leaving or not each.is_ready() for each in at.members):
            return WorkloadDecision(at.rollout, says="one pod at a time")
        pods = sorted(at.members, key=lambda each: each.number)
        surplus = pods[spec.replicas :] or [each for each in pods[spec.partition :] if each.revision != revision]
        if surplus:
            return WorkloadDecision(at.rollout, withdraw=(Withdrawal(surplus[-1].name, "it is the highest"),))
        create = (Creation(next(self.free_numbers(at)), revision),) if len(pods) < spec.replicas else ()
        return WorkloadDecision(at.rollout, create=create)


@pytest.fixture(autouse=True)
def _kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "StatefulSet", StatefulSets.traits)
    monkeypatch.setitem(workloads._KINDS, "StatefulSet", StatefulSets())


def wanted(replicas: int, image: str = "registry.local/web:1", partition: int = 0) -> dict[str, Any]:
    made = document("StatefulSet", image=image)
    return made | {"spec": made["spec"] | {"replicas": replicas, "partition": partition}}


def pods(state: WorkloadState) -> list[tuple[str, bool]]:
    """The name of each pod, and whether it is of the newest template."""
    return sorted((name, pod.revision == state.asked_for()) for name, pod in state.pods.items() if not pod.leaving)


def ready(state: WorkloadState, *names: str) -> list[tuple[str, bool]]:
    """Let n1 report these pods ready and all others gone; return the pods after the next decision."""
    gone = tuple(PodKey(namespace="default", name=name) for name in state.pods if name not in names)
    news = report(state, "n1", *names).model_copy(update={"gone": gone})
    workload_news.pods_reported(state, news, NOW)
    decide(state)
    return pods(state)


def test_its_pods_are_made_in_order_and_keep_their_numbers() -> None:
    state = WorkloadState()
    workload_updates.apply(state, OWNER, wanted(2), NOW)
    known(state)
    decide(state)
    assert pods(state) == [("web-0", True)], "the next one waits until it is ready"
    assert ready(state, "web-0") == ready(state, "web-0", "web-1") == [("web-0", True), ("web-1", True)]
    assert workload_placement.pod_to_run(state, "web-0").metadata.name == "web-0"
    said = workload_report.summary(state, None)
    assert (said.kind, said.desired) == ("StatefulSet", 2)
    assert ready(state, "web-1") == [("web-0", True), ("web-1", True)], "it is made again"


def test_its_decision_replaces_by_number() -> None:
    state = WorkloadState()
    workload_updates.apply(state, OWNER, wanted(2), NOW)
    known(state)
    decide(state)
    ready(state, "web-0")
    ready(state, "web-0", "web-1")
    workload_updates.apply(state, OWNER, wanted(2, "registry.local/web:2", partition=1), NOW)
    decide(state)
    assert pods(state) == [("web-0", False)]
    assert ready(state, "web-0") == ready(state, "web-0", "web-1") == [("web-0", False), ("web-1", True)]
    workload_updates.apply(state, OWNER, wanted(1, "registry.local/web:2", partition=1), NOW)
    decide(state)
    assert pods(state) == [("web-0", False)]


def test_its_document_is_read_as_those_of_other_kinds() -> None:
    with pytest.raises(PodInvalid) as refused:
        workloads.admit_workload(wanted(1, partition=-1) | {"metadata": {"name": "web"}, "speck": 1})
    assert [str(each) for each in refused.value.problems] == ["speck: unknown field; did you mean spec?"]
    rule = {"name": "web", "annotations": {"syncpod.dev/when-lost": "replace-after=5m"}}
    with pytest.raises(PodInvalid) as refused:
        workloads.admit_workload(wanted(1, partition=-1) | {"metadata": rule})
    assert [each.path for each in refused.value.problems] == [
        "metadata.annotations[syncpod.dev/when-lost]",
        "spec.partition",
    ]
