"""The time of one decision of the lifecycle, without a runtime or a server."""

from __future__ import annotations

import time

from bench.figures import Figure, Row
from bench.pods import pod
from syncpod.lifecycle.compute import compute_pod_actions
from syncpod.lifecycle.kubelet_version import FOLLOWED
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.lifecycle.pod_resources import PodResources
from syncpod.pod import Pod, container_hash

_CALLS = 1000
_INIT_CONTAINERS = 5


def decisions(samples: int) -> tuple[Row, ...]:
    """Time compute_pod_actions for a pod with five init containers: with nothing to do, and with one restart to do."""
    wanted = pod("decided", init_containers=_INIT_CONTAINERS)
    running, crashed = _observed(wanted, "running"), _observed(wanted, "exited")
    what = "compute_pod_actions, per call"
    return (
        Row(f"{what}: nothing to do", _timed(wanted, running, samples)),
        Row(f"{what}: a container to restart", _timed(wanted, crashed, samples)),
    )


def _timed(wanted: Pod, observed: ObservedPod, samples: int) -> Figure:
    nothing_applied = PodResources(containers={}, pod=None)
    microseconds = []
    for _ in range(1 + samples):
        began = time.perf_counter()
        for _ in range(_CALLS):
            compute_pod_actions(wanted, observed, liveness={}, startup={}, actuated=nothing_applied, kubelet=FOLLOWED)
        microseconds.append(1e6 * (time.perf_counter() - began) / _CALLS)
    return Figure(tuple(microseconds[1:]), "µs")


def _observed(wanted: Pod, main: str) -> ObservedPod:
    """Return a view of the pod: its sandbox, its init containers completed, its container in state `main`."""
    containers = [
        ObservedContainer(
            id=f"{each.name}-id", name=each.name, state="exited", hash=container_hash(each.name, each.image)
        )
        for each in wanted.spec.init_containers
    ]
    (each,) = wanted.spec.containers
    state = ObservedContainer.model_validate({"id": "main-id", "name": each.name, "state": main, "exitCode": 1})
    containers.append(state.model_copy(update={"hash": container_hash(each.name, each.image)}))
    sandbox = ObservedSandbox(id="sandbox", state="SANDBOX_READY", network_mode="NODE")
    return ObservedPod(uid="uid", sandboxes=(sandbox,), containers=tuple(reversed(containers)))
