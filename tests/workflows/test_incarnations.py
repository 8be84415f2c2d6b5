"""State across incarnations: numbers only grow, names stay taken, and each pod gets its whole grace period."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import pytest

from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, Seq
from syncpod.messages.signals import DeletePod, ProbeChanged
from syncpod.messages.steps import KillPod, StepResult
from tests.workflows.test_killing import NOW, a_pod, begun, listing
from workflows.pod import desired, observing, outcome
from workflows.pod.state import PodState


def instance(restart: int, state: str, *, incarnation: str = "life") -> ObservedContainer:
    said = {"id": f"{incarnation}-{restart}", "name": "web", "sandbox_id": "s0", "state": state}
    at = NOW + timedelta(minutes=restart)
    times = {"created_at": at} if state == "created" else {"created_at": at, "started_at": at}
    return ObservedContainer.model_validate({**said, **times, "restart_count": restart, "incarnation": incarnation})


def seen(state: PodState, counter: int, *containers: ObservedContainer) -> None:
    whole = listing(counter)
    observing.observe(state, whole.model_copy(update={"containers": containers}).ordered(), NOW)


def test_the_restart_count_does_not_fall_when_the_newest_instance_is_removed() -> None:
    state = a_pod()
    seen(state, 1, instance(3, "running"), instance(2, "exited"))
    seen(state, 2, instance(2, "exited"))
    assert state.restarts == {"web": 3}
    assert state.next_restart("web") == 4


def test_a_restart_number_used_by_an_earlier_incarnation_is_not_reused() -> None:
    state = a_pod()
    seen(state, 1, instance(4, "created", incarnation="earlier"))
    assert state.next_restart("web") == 5, "its name is in the runtime, though it never ran"


def test_fences_of_steps_increase() -> None:
    state = a_pod()
    fences = [begun(state, NOW).name and state.fence for _ in range(3)]
    assert fences == sorted(set(fences))


def test_a_pod_whose_sandbox_was_replaced_has_its_whole_grace_when_deleted() -> None:
    state = a_pod(web="running")
    observing.observe(state, in_sandbox(listing(2, web="running"), "s0", ready=False), NOW)
    moving = begun(state, NOW)
    assert moving.name == StepName.KILL_POD
    ended = in_sandbox(listing(3, web="exited"), "s0", ready=False)
    outcome.finished_step(state, moving, StepResult(status=ended).model_dump(mode="json"), NOW, NOW)
    observing.observe(state, in_sandbox(listing(4, web="running"), "s1", ready=True), NOW)

    tomorrow = NOW + timedelta(days=1)
    desired.delete(state, DeletePod(), tomorrow)
    step = begun(state, tomorrow).input
    assert isinstance(step, KillPod)
    assert (step.grace_seconds, step.targets[0].grace_seconds) == (30, 30)


@pytest.mark.parametrize(("probe", "counts"), [("readiness", True), ("liveness", False), ("startup", False)])
def test_only_readiness_failures_count_for_an_ending_pod(
    probe: Literal["readiness", "liveness", "startup"], counts: bool
) -> None:
    state = a_pod(web="running")
    desired.delete(state, DeletePod(), NOW)
    observing.take_probe_result(
        state, ProbeChanged(container="web", container_id="web-0", probe=probe, result="failure"), NOW
    )
    assert state.probes == ({probe: {"web-0": "failure"}} if counts else {})


def in_sandbox(pod: ObservedPod, sandbox_id: str, *, ready: bool) -> ObservedPod:
    """The same listing with its sandbox in another state, or with another sandbox; its containers change with it."""
    state, attempt = ("SANDBOX_READY" if ready else "SANDBOX_NOTREADY"), int(sandbox_id[1:])
    (sandbox,) = (
        each.model_copy(update={"id": sandbox_id, "state": state, "attempt": attempt}) for each in pod.sandboxes
    )
    named = {"sandbox_id": sandbox_id, "restart_count": attempt}
    containers = (each.model_copy(update={**named, "id": f"{each.name}-{attempt}"}) for each in pod.containers)
    return pod.model_copy(
        update={"sandboxes": (sandbox,), "containers": tuple(containers), "seq": Seq(boot=1, counter=pod.seq.counter)}
    )
