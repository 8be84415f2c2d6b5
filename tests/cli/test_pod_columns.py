"""The columns of `get pods` in each situation, as in kubectl."""

from __future__ import annotations

from datetime import timedelta

import pytest

from syncpod.api.listed import Recorded
from syncpod.api.views.pod_columns import row, uncertain_row
from syncpod.cli.view.rows import colour_of
from syncpod.node.orphan_mark import NO_WORKFLOW, marked
from syncpod.pod import Pod, pod_to_wire
from tests.cli.pods import NOW, ago, ended, pod, restarted, running, waiting

SITUATIONS: dict[str, tuple[Pod, tuple[str, str, str]]] = {
    "a pod of which nothing is known yet": (pod(phase=""), ("0/0", "Pending", "0")),
    "its container is being made": (
        pod(waiting("ContainerCreating"), phase="Pending"),
        ("0/1", "ContainerCreating", "0"),
    ),
    "it runs and is ready": (pod(running()), ("1/1", "Running", "0")),
    "it runs and is not ready": (pod(running(ready=False)), ("0/1", "Running", "0")),
    "the first of three init containers runs": (
        pod(
            waiting("PodInitializing"),
            init=(running("a", ready=False), waiting("PodInitializing", "b"), waiting("PodInitializing", "c")),
            phase="Pending",
        ),
        ("0/1", "Init:0/3", "0"),
    ),
    "two of three init containers are done": (
        pod(
            waiting("PodInitializing"),
            init=(ended(0, "Completed", "a"), ended(0, "Completed", "b"), running("c", ready=False)),
            phase="Pending",
        ),
        ("0/1", "Init:2/3", "0"),
    ),
    "all init containers are done, and the containers are still to come": (
        pod(waiting("PodInitializing"), init=(ended(0, "Completed", "a"),), phase="Pending"),
        ("0/1", "PodInitializing", "0"),
    ),
    "an init container failed": (
        pod(waiting("PodInitializing"), init=(ended(1, "Error", "a"),), phase="Pending"),
        ("0/1", "Init:Error", "0"),
    ),
    "an init container failed without a reason": (
        pod(waiting("PodInitializing"), init=(ended(3, "", "a"),), phase="Pending"),
        ("0/1", "Init:ExitCode:3", "0"),
    ),
    "an init container was killed by a signal": (
        pod(waiting("PodInitializing"), init=(ended(0 + 137, "", "a", signal=9),), phase="Pending"),
        ("0/1", "Init:Signal:9", "0"),
    ),
    "an init container crashes again and again": (
        pod(
            waiting("PodInitializing"),
            init=(waiting("CrashLoopBackOff", "a", **restarted(4, seconds=30)),),
            phase="Pending",
        ),
        ("0/1", "Init:CrashLoopBackOff", "4 (30s ago)"),
    ),
    "a sidecar has started and the next init container runs": (
        pod(
            waiting("PodInitializing"),
            init=(running("proxy"), running("a", ready=False)),
            sidecars=("proxy",),
            phase="Pending",
        ),
        ("1/2", "Init:1/2", "0"),
    ),
    "a sidecar counts among the containers": (
        pod(running(), init=(running("proxy"),), sidecars=("proxy",)),
        ("2/2", "Running", "0"),
    ),
    "a sidecar's restarts count once the pod is initialized, those of init containers do not": (
        pod(
            running(),
            init=(ended(0, "Completed", "a", restartCount=5), running("proxy", **restarted(2, minutes=3))),
            sidecars=("proxy",),
            conditions=("Initialized",),
        ),
        ("2/2", "Running", "2 (3m ago)"),
    ),
    "a sidecar of an initialized pod crashes: it is named, and what runs is counted": (
        pod(
            running(),
            init=(waiting("CrashLoopBackOff", "proxy", started=False, **restarted(1, seconds=5)),),
            sidecars=("proxy",),
            conditions=("Initialized",),
        ),
        ("1/2", "Init:CrashLoopBackOff", "1 (5s ago)"),
    ),
    "it crashes again and again": (
        pod(waiting("CrashLoopBackOff", **restarted(7, minutes=2, seconds=10))),
        ("0/1", "CrashLoopBackOff", "7 (2m10s ago)"),
    ),
    "it was restarted, nobody knows when": (pod(running(restartCount=3)), ("1/1", "Running", "3")),
    "of two restarted containers the last end counts": (
        pod(running("a", **restarted(1, hours=2)), running("b", **restarted(2, seconds=50))),
        ("2/2", "Running", "3 (50s ago)"),
    ),
    "its image cannot be pulled": (pod(waiting("ErrImagePull"), phase="Pending"), ("0/1", "ErrImagePull", "0")),
    "of two troubles the first container's is shown": (
        pod(waiting("ImagePullBackOff", "a"), waiting("CrashLoopBackOff", "b")),
        ("0/2", "ImagePullBackOff", "0"),
    ),
    "it has succeeded": (pod(ended(0, "Completed"), phase="Succeeded"), ("0/1", "Completed", "0")),
    "it has failed": (pod(ended(1, "Error"), phase="Failed"), ("0/1", "Error", "0")),
    "it ran out of memory": (pod(ended(137, "OOMKilled"), phase="Failed"), ("0/1", "OOMKilled", "0")),
    "it ended without a reason": (pod(ended(2), phase="Failed"), ("0/1", "ExitCode:2", "0")),
    "it was killed without a reason": (pod(ended(143, signal=15), phase="Failed"), ("0/1", "Signal:15", "0")),
    "one is done and the other runs, and the pod is ready": (
        pod(ended(0, "Completed", "a"), running("b"), conditions=("Ready",)),
        ("1/2", "Running", "0"),
    ),
    "one is done and the other runs, and the pod is not ready": (
        pod(ended(0, "Completed", "a"), running("b")),
        ("1/2", "NotReady", "0"),
    ),
    "the pod itself has a reason": (
        pod(running(), phase="Failed", reason="DeadlineExceeded"),
        ("1/1", "DeadlineExceeded", "0"),
    ),
    "it is being deleted": (
        pod(running(), metadata={"deletionTimestamp": ago(seconds=-20)}),
        ("1/1", "Terminating", "0"),
    ),
    "it is being deleted and has finished": (
        pod(ended(0, "Completed"), phase="Succeeded", metadata={"deletionTimestamp": ago(seconds=-20)}),
        ("0/1", "Completed", "0"),
    ),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_pod_row_is_that_of_kubectl(situation: str) -> None:
    shown, expected = SITUATIONS[situation]
    assert row(pod_to_wire(shown), NOW) == ("web", *expected, "5m")


def test_wide_adds_addresses_and_gates() -> None:
    shown = pod(running(), podIPs=[{"ip": "10.0.0.2"}, {"ip": "fd00::2"}])
    assert row(pod_to_wire(shown), NOW, wide=True)[5:] == ("10.0.0.2", "vm", "<none>", "<none>")
    spec = shown.spec.model_dump(by_alias=True) | {"readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]}
    gated = pod(running(), conditions=("a",)).model_copy(update={"spec": type(shown.spec).model_validate(spec)})
    assert row(pod_to_wire(gated), NOW, wide=True)[5:] == ("<none>", "vm", "<none>", "1/2")


def test_recorded_states_are_marked() -> None:
    assert uncertain_row(pod_to_wire(pod(running())), NOW) == ("web", "?", "Running?", "?", "5m?")
    assert uncertain_row(pod_to_wire(pod(phase="")), NOW)[2] == "Unknown?"
    crashing = uncertain_row(pod_to_wire(pod(running())), NOW, Recorded("CrashLoopBackOff", 12))
    assert crashing == ("web", "?", "CrashLoopBackOff?", "12?", "5m?"), "since its workflow's run began"
    created = (NOW - timedelta(days=2)).isoformat()
    assert uncertain_row(pod_to_wire(pod(running())), NOW, Recorded("Running", 0, created))[4] == "2d"
    wide = uncertain_row({"metadata": {"name": "web"}, "spec": {"nodeName": "n1"}}, NOW, wide=True)
    assert wide[5:] == ("?", "n1", "?", "?"), "an address that is not known is none of nothing"


def test_what_a_pod_without_a_workflow_told_last_is_marked() -> None:
    told = marked(
        pod_to_wire(pod(running("a"), waiting("CrashLoopBackOff", "b", **restarted(3, seconds=10)))), NO_WORKFLOW
    )
    assert row(told, NOW)[1:4] == ("1/2?", "Orphan", "3? (10s ago)")


@pytest.mark.parametrize(
    ("status", "colour"),
    [
        ("Running", "green"),
        ("Completed", "green"),
        ("Init:1/2", "yellow"),
        ("Terminating", "yellow"),
        ("CrashLoopBackOff", "red"),
        ("Init:Error", "red"),
        ("Running?", "dim"),
    ],
)
def test_colours_distinguish_good_and_bad_states(status: str, colour: str) -> None:
    assert colour_of(status) == colour
