"""A plan shows what the workflow does after an apply: by the same decision, at the time at which it is asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox, Seq
from syncpod.pod import admit_pod, container_hash
from workflows.pod import decide, desired, observing, sync, verdicts
from workflows.pod.decision import Decision
from workflows.pod.published import PublishedPod
from workflows.pod.state import PodState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=100)
SHOWN = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
AMOUNTS = {"path": "cpu", "resourceFieldRef": {"containerName": "app", "resource": "limits.cpu"}}
SMALL = {"limits": {"cpu": "100m"}, "requests": {"cpu": "100m"}}
IMPATIENT = {"syncpod.dev/backoff-initial": "1s", "syncpod.dev/backoff-max": "1s"}


def document(**spec: Any) -> dict[str, Any]:
    containers = [{"name": name, "image": "x:1", "resources": SMALL} for name in ("app", "side")]
    metadata = {"name": "web", "namespace": "default", "uid": "uid", "labels": {"a": "b"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def listing(counter: int, at: datetime, *ended: str, restart: int = 0) -> ObservedPod:
    sandbox = ObservedSandbox(id="s0", state="SANDBOX_READY", ip="10.0.0.1", incarnation="life")
    instances = tuple(
        ObservedContainer(
            id=f"{name}-{restart if name in ended else 0}", name=name, sandbox_id="s0",
            state="exited" if name in ended else "running", restart_count=restart if name in ended else 0,
            hash=container_hash(name, "x:1"), created_at=NOW, started_at=NOW, incarnation="life",
            **({"finished_at": at, "exit_code": 1, "reason": "Error"} if name in ended else {}),
        )
        for name in ("app", "side")
    )  # fmt: skip
    seq = Seq(boot=1, counter=counter)
    return ObservedPod(seq=seq, uid="uid", observed_at=at, sandboxes=(sandbox,), containers=instances)


def running(pod: dict[str, Any]) -> PodState:
    """A pod that runs, and whose workflow has nothing to do."""
    state = PodState(pod=admit_pod(pod), incarnation="life", fence=3)
    observing.observe(state, listing(1, NOW), NOW)
    sync.catch_up(state, NOW, ())
    assert decide.next_step(state, NOW) == Decision()
    return state


def crashing(pod: dict[str, Any], times: int = 3) -> PodState:
    """The same pod, whose container `app` has crashed and was restarted so many times, and then crashed again."""
    state = running(pod)
    for restart in range(times + 1):
        observing.observe(state, listing(2 + restart, NOW, "app", restart=restart), NOW)
        sync.catch_up(state, NOW, ())
        if restart < times:
            state.released = {"app": restart + 1}
            step = decide.next_step(state, NOW).step
            assert step is not None
            decide.record_step(state, step, NOW)
    return state


def of_act(state: PodState, wanted: dict[str, Any], at: datetime) -> list[str]:
    """The names of the pod's next step, as the workflow decides after the apply; [] if it takes none."""
    acting = state.model_copy()
    desired.apply(acting, wanted, at)
    while True:
        sync.catch_up(acting, at, ())
        decision = decide.next_step(acting, at)
        if decision.failure is None:
            return [] if decision.step is None else [f"{decision.step.name} {decision.step.container}".rstrip()]
        verdicts.fail(acting, decision.failure, at)


def of_plan(state: PodState, wanted: dict[str, Any], at: datetime) -> list[str]:
    planned = sync.plan(state, wanted, at)
    return [f"{step['step']} {step['container']}".rstrip() for step in planned["steps"]]


def test_a_plan_shows_that_the_new_active_deadline_has_passed_or_when_it_will() -> None:
    """Also where the pod's state was published before that time: the plan is asked for later."""
    pod = document()
    state, wanted = running(pod), document(activeDeadlineSeconds=30)
    soon = sync.plan(state, wanted, NOW)
    assert (soon["steps"], soon["deadline"]) == ([], (NOW + timedelta(seconds=30)).isoformat())
    for passed in (sync.plan(state, wanted, LATER), PublishedPod(state, NOW).plan(wanted)):
        (kill,) = passed["steps"]
        assert (kill["step"], kill["why"], passed.get("deadline")) == ("kill_pod", "DeadlineExceeded", None)
    assert of_act(state, wanted, LATER) == ["kill_pod"]
    assert "deadline" not in sync.plan(state, pod, LATER)
    assert state.failure is None, "a plan changes nothing"


def test_a_plan_is_of_the_present_and_not_of_the_last_task() -> None:
    """A shorter back-off that has passed since the last task holds nothing."""
    pod = document()
    state = crashing(pod)
    held = sync.plan(state, None, NOW)["holds"]
    assert [hold["subject"] for hold in held] == ["app"]
    wanted = copy.deepcopy(pod)
    wanted["metadata"]["annotations"] = IMPATIENT
    assert sync.plan(state, wanted, NOW)["holds"], "the container crashed just now"
    planned = PublishedPod(state, NOW).plan(wanted)
    assert ([step["step"] for step in planned["steps"]], planned["holds"]) == (["start_container"], [])


def test_a_plan_shows_that_a_lowered_limit_of_restarts_fails_the_pod() -> None:
    state, wanted = crashing(document()), document()
    wanted["metadata"]["annotations"] = {"syncpod.dev/restart-limit": "2", "syncpod.dev/restart-limit-action": "fail"}
    (kill,) = sync.plan(state, wanted, NOW)["steps"]
    assert (kill["step"], kill["why"]) == ("kill_pod", "RestartLimitReached")
    assert of_act(state, wanted, NOW) == ["kill_pod"]
    assert of_act(running(document()), wanted, NOW) == [], "one that runs goes on until it ends"


@pytest.mark.parametrize("change", ["labels", "resources"])
def test_a_plan_shows_that_files_about_the_pod_are_rewritten(change: str) -> None:
    volume = {"name": "about", "downwardAPI": {"items": [SHOWN, AMOUNTS]}}
    state = running(document(volumes=[volume]))
    wanted = document(volumes=[volume])
    if change == "labels":
        wanted["metadata"]["labels"] = {"a": "c"}
        assert of_plan(state, wanted, NOW) == of_act(state, wanted, NOW) == ["sync_volumes"]
    else:
        wanted["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}}
        assert of_plan(state, wanted, NOW)[:3] == ["allocate_resources", "sync_volumes", "resize_pod"]


def _image(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][1]["image"] = "x:2"


def _resources(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}}


def _labels(pod: dict[str, Any]) -> None:
    pod["metadata"]["labels"] = {"a": "c"}


def _patience(pod: dict[str, Any]) -> None:
    pod["metadata"]["annotations"] = IMPATIENT


def _limit(pod: dict[str, Any]) -> None:
    pod["metadata"]["annotations"] = {"syncpod.dev/restart-limit": "1", "syncpod.dev/restart-limit-action": "fail"}


def _deadline(pod: dict[str, Any]) -> None:
    pod["spec"]["activeDeadlineSeconds"] = 30


def _tolerations(pod: dict[str, Any]) -> None:
    pod["spec"]["tolerations"] = [{"key": "a", "operator": "Exists"}]


def _nothing(_: dict[str, Any]) -> None:
    pass


CHANGES = (_image, _resources, _labels, _patience, _limit, _deadline, _tolerations, _nothing)
"""A change of each kind that an apply may make to a running pod."""


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("began", [running, crashing])
@pytest.mark.parametrize("seconds", [0, 100, 1000])
def test_a_plan_begins_with_the_step_that_the_workflow_takes(
    change: Callable[[dict[str, Any]], None], began: Callable[[dict[str, Any]], PodState], seconds: int
) -> None:
    pod = document(volumes=[{"name": "about", "downwardAPI": {"items": [SHOWN]}}])
    wanted, at = copy.deepcopy(pod), NOW + timedelta(seconds=seconds)
    change(wanted)
    state = began(pod)
    plan, act = sync.plan(state, wanted, at), of_act(state, wanted, at)
    assert "error" not in plan
    assert plan["change"] == desired.apply(state.model_copy(), wanted, at)["change"]
    steps, held = of_plan(state, wanted, at), [hold["subject"] for hold in plan["holds"]]
    free = [step for step in steps if not step.endswith(tuple(held))] if held else steps
    assert free[:1] == act
