"""The order of one sync's steps, and the targets of each."""

from __future__ import annotations

from syncpod.lifecycle.actions import ContainerToReset, PodActions
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.lifecycle.plan import PlannedStep, plan_steps
from syncpod.pod import Pod

POD = Pod.model_validate({"spec": {"initContainers": [{"name": f"init{number}"} for number in (1, 2, 3)]}})
ANEW = PodActions(kill_pod=True, create_sandbox=True, init_containers_to_start=(0,))
ALL = PodActions(
    containers_to_reset=tuple(ContainerToReset(id=name, name=name, kill=name == "b") for name in ("a", "b", "init"))
)


def test_a_new_sandbox_begins_with_the_removal_of_the_init_containers_that_the_runtime_lists() -> None:
    old = [ObservedContainer(id=f"{name}-id", name=name, state="exited") for name in ("init1", "init2", "init3")]
    view = ObservedPod(containers=tuple(old))

    def removed(*recorded: str) -> list[tuple[str, ...]]:
        steps = plan_steps(POD, view, ANEW, recorded=recorded)
        return [step.ids for step in steps if step.verb == "remove_container"]

    assert removed() == [("init1-id", "init2-id", "init3-id")]
    assert removed("init2-id") == [("init1-id", "init3-id")]
    assert removed("init1-id", "init2-id", "init3-id") == [], "a removal cannot take a record away"


def test_a_restart_of_all_names_every_instance_also_one_that_is_only_recorded() -> None:
    (step,) = plan_steps(POD, ObservedPod(), ALL, recorded=("a",))
    assert step == PlannedStep(
        step.verb, ids=("a", "b", "init"), kill=("b",), keep_logs=True, cause=KillCause.RULE, why=step.why
    )
