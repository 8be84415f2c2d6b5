"""Pruning of init containers: dead instances before the next start, and all of them before a new sandbox."""

from __future__ import annotations

from datetime import UTC, datetime

from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.observed import ContainerRuntimeState, ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.messages.steps import StartContainer
from syncpod.pod import Pod, admit_pod
from workflows.pod import decide
from workflows.pod.state import PodState

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_pod() -> Pod:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "u1"},
        "spec": {
            "initContainers": [{"name": "first", "image": "x:1"}, {"name": "second", "image": "x:1"}],
            "containers": [{"name": "web", "image": "x:1"}],
        },
    }
    return admit_pod(document)


def instance(name: str, restart: int, code: int, state: ContainerRuntimeState = "exited") -> ObservedContainer:
    made = NOW.replace(minute=restart)
    return ObservedContainer(
        id=f"{name}-{restart}",
        name=name,
        sandbox_id="s0",
        state=state,
        exit_code=code,
        restart_count=restart,
        created_at=made,
        started_at=made,
        finished_at=made,
    )


def state(*containers: ObservedContainer, ready: bool = True) -> PodState:
    sandbox = ObservedSandbox(id="s0", state="SANDBOX_READY" if ready else "SANDBOX_NOTREADY", ip="10.0.0.1")
    observed = ObservedPod(uid="u1", sandboxes=(sandbox,), containers=containers).ordered()
    return PodState(pod=a_pod(), observed=observed)


def test_older_dead_instances_are_pruned_before_an_init_container_restarts() -> None:
    """Row 109: pruneInitContainersBeforeStart keeps the newest dead one of a name."""
    failed = state(*(instance("first", restart, 1) for restart in range(3)))
    step = decide.next_step(failed, NOW).step
    assert step is not None
    assert isinstance(step.input, StartContainer)
    assert (step.input.container, step.input.restart, step.input.prune) == ("first", 3, ("first-1", "first-0"))


def test_all_init_container_instances_are_purged_before_a_new_sandbox() -> None:
    """Row 109: purgeInitContainers, since they run again; main containers stay."""
    lost = state(instance("first", 0, 0), instance("first", 1, 0), instance("web", 0, 1), ready=False)
    planned = [(step.verb, step.ids) for step in decide.planned(lost)]
    verbs = [verb for verb, _ in planned]
    assert verbs.index(StepName.REMOVE_CONTAINER) < verbs.index(StepName.CREATE_SANDBOX)
    assert set(dict(planned)[StepName.REMOVE_CONTAINER]) == {"first-0", "first-1"}
