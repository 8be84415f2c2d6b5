"""`syncpod tree`: what each pod and container waits for in each situation."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from syncpod.api.listed import ListedPod, Recorded
from syncpod.cli.view.pod_tree import Branch, documents, is_explained, is_settled, lines
from syncpod.messages.running_steps import PendingStep

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
RUNNING = {"running": {"startedAt": "2026-11-23T11:00:00Z"}}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def branch(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **more: Any) -> Branch:
    status = {"phase": "Pending", "containerStatuses": list(containers), "initContainerStatuses": list(init)}
    spec = {"nodeName": "n1", "containers": [{"name": each["name"]} for each in containers]}
    spec["initContainers"] = [{"name": each["name"]} for each in init]
    pod = {"metadata": {"namespace": "default", "name": "web"}, "spec": spec, "status": status}
    return Branch(ListedPod(pod), **more)


def app(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "app", "state": state, "ready": False, **more}


HELD = {"subject": "app", "until": (NOW + timedelta(seconds=20)).isoformat(), "reason": "CrashLoopBackOff"}


@pytest.mark.parametrize(
    ("drawn", "leaf"),
    [
        (branch(app(RUNNING, ready=True)), "container app: running"),
        (branch(app(RUNNING, started=True)), "container app: running, waits for its readiness probe"),
        (branch(app(RUNNING, started=False)), "container app: running, waits for its startup probe"),
        (branch(app(waiting("ContainerCreating"))), "container app: waiting, waits for its sandbox"),
        (
            branch(app(waiting("ErrImagePull", "no\nsuch image"))),
            "container app: waiting, waits for ErrImagePull: no such image",
        ),
        (
            branch(app(waiting("PodInitializing")), init=({"name": "setup", "state": RUNNING, "started": True},)),
            "container app: waiting, waits for init container setup",
        ),
        (
            branch(app({"terminated": {"reason": "Completed", "exitCode": 0}})),
            "container app: Completed (exit 0)",
        ),
        (
            branch(app(RUNNING, ready=True), steps=(PendingStep("resize_pod", 3, None, "no room", ""),)),
            "step resize_pod: try 3; the last one failed: no room",
        ),
        (
            branch(app(RUNNING, ready=True), holds=({**HELD, "subject": "create_sandbox", "until": None},)),
            "create_sandbox: waits for an operator: CrashLoopBackOff",
        ),
    ],
)
def test_each_leaf_says_what_it_waits_for(drawn: Branch, leaf: str) -> None:
    *_, last = lines([drawn], NOW)
    assert last == f"   └─ {leaf}"


def test_a_container_that_is_being_started_waits_for_what_its_start_does_now() -> None:
    up = [{"type": "PodReadyToStartContainers", "status": "True"}]
    hook = ("start_container", "carries out the postStart hook of app")
    under_way = (PendingStep("start_container", 1, None, ""),)
    for reason in ("ContainerCreating", "PodInitializing"):
        drawn = branch(app(waiting(reason)), doing={"app": hook}, steps=under_way)
        drawn.pod.document["status"]["conditions"] = up
        *_, last = lines([drawn], NOW)
        assert last == f"   └─ container app: waiting, waits for {hook[0]}, which {hook[1]}", "once, and not the image"
        unknown = Branch(drawn.pod)
        assert [*lines([unknown], NOW)][-1] == "   └─ container app: waiting, waits for its image or its start"
    tried = Branch(drawn.pod, steps=(PendingStep("start_container", 2, None, "no disk"),), doing={"app": hook})
    assert [*lines([tried], NOW)][-1] == "   └─ step start_container: try 2; the last one failed: no disk"


def test_an_init_container_that_runs_waits_for_nothing() -> None:
    drawn = branch(app(waiting("PodInitializing")), init=({"name": "setup", "state": RUNNING, "ready": False},))
    assert "   ├─ init container setup: running" in lines([drawn], NOW)


def test_a_back_off_is_told_with_its_end() -> None:
    drawn = branch(app(waiting("CrashLoopBackOff", "words")), holds=(HELD,))
    *_, last = lines([drawn], NOW)
    due = (NOW + timedelta(seconds=20)).astimezone()
    assert last == f"   └─ container app: waiting, CrashLoopBackOff: starts again at {due:%H:%M:%S}, in 20s"
    (node,) = documents([drawn])
    assert node["pods"][0]["containers"][0]["waitsFor"] == f"CrashLoopBackOff until {HELD['until']}"


def test_pods_stand_below_their_nodes_and_one_that_does_not_answer_is_marked() -> None:
    silent = {"metadata": {"namespace": "default", "name": "a"}, "spec": {"nodeName": "n0"}}
    drawn = [branch(app(RUNNING)), Branch(ListedPod(silent, current=False, recorded=Recorded("CrashLoopBackOff", 3)))]
    assert [line for line in lines(drawn, NOW) if not line.startswith("   ")] == [
        "node/n0 (1 pod)",
        "└─ pod/default/a: CrashLoopBackOff?: it does not answer; this was recorded last",
        "node/n1 (1 pod)",
        "└─ pod/default/web: Pending, 0/1 ready",
    ]


def test_only_pods_at_rest_are_settled() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert is_settled({"status": ready}) and is_settled({"status": {"phase": "Succeeded"}})
    assert not is_settled({"status": ready, "metadata": {"deletionTimestamp": "2026-11-23T12:00:00Z"}})
    assert not is_settled({"status": {"phase": "Running"}})


def test_the_server_is_not_asked_for_steps_of_a_pod_whose_back_off_explains_it() -> None:
    init = ({"name": "setup", "state": waiting("CrashLoopBackOff")},)
    assert is_explained(branch(app(waiting("CrashLoopBackOff")), holds=(HELD,)))
    assert is_explained(branch(app(waiting("PodInitializing")), init=init, holds=({**HELD, "subject": "setup"},)))
    assert not is_explained(branch(app(waiting("ContainerCreating"))))
    assert not is_explained(branch(app(RUNNING, ready=True), holds=(HELD,))), "it runs by now"
    ending = branch(app(waiting("CrashLoopBackOff")), holds=(HELD,))
    ending.pod.document["metadata"]["deletionTimestamp"] = "2026-11-23T12:00:00Z"
    assert not is_explained(ending)
