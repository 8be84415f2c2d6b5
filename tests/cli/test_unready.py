"""The reasons for a pod that is not ready, as `wait` prints them after its timeout."""

from __future__ import annotations

from typing import Any

import pytest

from syncpod.cli.view.unready import unready
from syncpod.pod import Pod
from tests.cli.pods import ended, pod, running, waiting

PROBE = {"exec": {"command": ["true"]}}


def told(code: int, message: str) -> dict[str, Any]:
    """The status of a container that ended with a message."""
    entry = ended(code, "Error")
    entry["state"]["terminated"]["message"] = message
    return entry


def hung(reason: str, message: str, name: str = "app", **more: Any) -> dict[str, Any]:
    """The status of a container that waits with a message."""
    return {**waiting(reason, name, **more), "state": {"waiting": {"reason": reason, "message": message}}}


def with_probe(one: Pod, probe: str) -> Pod:
    """The pod, with a probe in its only container."""
    wire = one.model_dump(by_alias=True, exclude_none=True, mode="json")
    wire["spec"]["containers"][0][probe] = PROBE
    return Pod.model_validate(wire)


CRASHED = {"lastState": {"terminated": {"exitCode": 3, "reason": "Error"}}}
GATE = [{"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": 'gate "a" is not met.'}]
DONE = ended(0, "Completed", "setup")


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (pod(running()), "Running"),
        (pod(), "Running"),
        (pod(waiting("ContainerCreating"), phase="Pending"), "ContainerCreating, container app"),
        (
            pod(hung("ImagePullBackOff", "Back-off pulling image\n  x"), phase="Pending"),
            "ImagePullBackOff, container app: Back-off pulling image x",
        ),
        (
            pod(running(), hung("CrashLoopBackOff", "back-off 10s", "side", **CRASHED)),
            "CrashLoopBackOff, container side: back-off 10s; it ended before with exit code 3",
        ),
        (
            pod(hung("CrashLoopBackOff", "back-off 10s"), hung("ErrImagePull", "no", "side"), running("ok")),
            "CrashLoopBackOff, container app: back-off 10s; container side: ErrImagePull: no",
        ),
        (pod(told(3, "no database\n")), "Error, container app: exit code 3: no database"),
        (pod(ended(137, "OOMKilled", signal=9)), "OOMKilled, container app: signal 9"),
        (
            pod(ended(0, "Completed"), running("side", ready=False)),
            "Completed, container app: exit code 0; container side: runs, and is not ready yet",
        ),
        (
            pod(ended(0, "Completed"), ended(1, "Error", "side"), phase="Failed"),
            "Completed, container side: Error, exit code 1",
        ),
        (pod(running(ready=False)), "Running, container app: runs, and is not ready yet"),
        (
            with_probe(pod(running(ready=False)), "readinessProbe"),
            "Running, container app: runs, and its readiness probe does not succeed",
        ),
        (
            with_probe(pod({**running(ready=False), "started": False}), "startupProbe"),
            "Running, container app: runs, and its startup probe has not succeeded yet",
        ),
        (
            pod(waiting("PodInitializing"), init=(running("setup", ready=False),), phase="Pending"),
            "Init:0/1, init container setup: runs, and has not ended yet",
        ),
        (
            pod(
                waiting("PodInitializing"),
                init=(DONE, hung("CrashLoopBackOff", "back-off 10s", "second"), waiting("PodInitializing", "third")),
                phase="Pending",
            ),
            "Init:CrashLoopBackOff, init container second: back-off 10s",
        ),
        (pod(running(), init=(DONE,)), "Running"),
        (
            pod(running(ready=False), sidecars=("proxy",), init=(running("proxy", ready=False, started=True),)),
            "Running, init container proxy: runs, and is not ready yet; container app: runs, and is not ready yet",
        ),
        (
            pod(running(), sidecars=("proxy",), init=(running("proxy", ready=False),)),
            "Running, init container proxy: runs, and is not ready yet",
        ),
        (
            pod(waiting("ContainerCreating"), message="Pod was rejected:\nno room", phase="Failed"),
            "ContainerCreating, Pod was rejected: no room",
        ),
    ],
)
def test_each_unready_container_is_named_with_its_reason(of: Pod, said: str) -> None:
    assert unready(of) == said


def test_an_unmet_readiness_gate_is_named() -> None:
    wire = pod(running()).model_dump(by_alias=True, exclude_none=True, mode="json")
    wire["status"]["conditions"] = GATE
    assert unready(Pod.model_validate(wire)) == 'Running, gate "a" is not met'
