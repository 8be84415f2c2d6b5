"""The pod's phase: one word for the whole pod, computed from the statuses of its containers.

`pod_phase` uses nothing else. `syncpod.lifecycle.status` makes sure that a pod never leaves Succeeded or Failed, and
that neither is shown while a container can still run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal

from syncpod.lifecycle.observed import ObservedPod
from syncpod.lifecycle.restart import container_should_restart, is_sidecar
from syncpod.pod import Container, ContainerStateTerminated, ContainerStatus, Pod, PodSpec
from syncpod.pod.origin import API_SOURCE, KUBERNETES_SOURCE, SOURCE_ANNOTATION

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]

TERMINAL_PHASES: Final = ("Succeeded", "Failed")


RESTARTING_ALL_CONTAINERS: Final = "RestartingAllContainers"
"""Reason of a container that was ended only so that all containers are started again."""
SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
"""A pod of this priority or a higher one is critical (scheduling/types.go)."""


def is_static_pod(pod: Pod) -> bool:
    """Say whether the pod came from a list of pods, such as a directory (pod_update.go, v1.36, IsStaticPod).

    A pod of a Kubernetes cluster is not static: its source is the one that the kubelet calls `api`.
    """
    return pod.metadata.annotations.get(SOURCE_ANNOTATION, API_SOURCE) not in (API_SOURCE, KUBERNETES_SOURCE)


def is_critical(pod: Pod) -> bool:
    """Say whether a pod is critical: never evicted, and admitted under any pressure (pod_update.go, IsCriticalPod)."""
    return is_static_pod(pod) or (pod.spec.priority or 0) >= SYSTEM_CRITICAL_PRIORITY


def pod_has_initialized(pod: Pod, observed: ObservedPod) -> bool:
    """Say whether the runtime has a main container, in any state, in the pod's current sandbox.

    The current sandbox is the newest one, if it is ready. Mirrors container/helpers.go, v1.36,
    HasAnyActiveRegularContainerStarted.
    """
    main = {container.name for container in pod.spec.containers}
    return any(container.name in main for container in observed.in_newest_sandbox().containers)


def pod_phase(
    pod: Pod,
    init_statuses: Sequence[ContainerStatus] | None,
    statuses: Sequence[ContainerStatus] | None,
    *,
    pod_is_terminal: bool,
    pod_has_initialized: bool,
    followed: Collection[str] = (),
) -> Phase:
    """Return the phase that follows from the containers' statuses.

    `pod_is_terminal` is True if every container has been stopped for good, so that nothing restarts under any policy.
    If `pod_has_initialized` (see the function of that name), a restarting sidecar does not make the pod Pending.
    `followed` has the names of containers that have ended only so that another instance follows, under any policy. A
    container without a status is unknown. If several statuses have one name, the first counts.

    Mirrors kubelet_pods.go, v1.36, getPhase.
    """
    by_name = statuses_by_name((*(statuses or ()), *(init_statuses or ())))
    plain = [container for container in pod.spec.init_containers if not is_sidecar(container)]
    init = {_init_container_standing(container, pod.spec, by_name.get(container.name)) for container in plain}
    if "failed" in init:
        return "Failed"
    count = _standings(pod.spec, by_name, followed)
    if "pending" in init or (count["pending sidecar"] and not pod_has_initialized):
        return "Pending"
    if count["waiting"] or count["unknown"]:
        return "Pending"
    if count["running"]:
        return "Running"
    if not count["stopped"]:
        return "Pending"

    outcome: Phase = "Succeeded" if count["stopped"] == count["succeeded"] else "Failed"
    if pod_is_terminal and not is_static_pod(pod):
        return outcome
    return outcome if count["stopped"] == count["stopped for good"] else "Running"


def _standings(spec: PodSpec, by_name: Mapping[str, ContainerStatus], followed: Collection[str]) -> Counter[str]:
    """Count the sidecars and main containers by state; a container may have several of the states."""
    count: Counter[str] = Counter()
    for container in spec.init_containers:
        if is_sidecar(container):
            count.update(_sidecar_standing(by_name.get(container.name)))
    for container in spec.containers:
        standing = _main_container_standing(container, spec, by_name.get(container.name))
        count.update(word for word in standing if container.name not in followed or word != "stopped for good")
    return count


def _init_container_standing(
    container: Container, spec: PodSpec, status: ContainerStatus | None
) -> Literal["pending", "failed", "done"]:
    """Say where a plain init container stands. A failed one that restarts counts as `done` for the phase."""
    if status is None or status.state.running:
        return "pending"
    ended = _last_end(status)
    if ended is None:
        return "pending"
    return "failed" if ended.exit_code != 0 and not _restartable(container, spec, ended) else "done"


def _sidecar_standing(status: ContainerStatus | None) -> tuple[str, ...]:
    """Return a sidecar's state. One that has ended does not count: it restarts, or ends with the pod."""
    if status is None:
        return ("unknown",)
    if status.state.running:
        return ("running",) if status.started else ("running", "pending sidecar")
    if _last_end(status) is not None:
        return ()
    return ("pending sidecar", "waiting") if status.state.waiting else ("pending sidecar", "unknown")


def _main_container_standing(container: Container, spec: PodSpec, status: ContainerStatus | None) -> tuple[str, ...]:
    if status is None:
        return ("unknown",)
    if status.state.running:
        return ("running",)
    ended = _last_end(status)
    if ended is None:
        return ("waiting",) if status.state.waiting else ("unknown",)
    standing = ["stopped"]
    if not _restartable(container, spec, ended):
        standing.append("stopped for good")
    # A container that waits to be restarted has not succeeded, however its last run ended.
    if status.state.terminated and ended.exit_code == 0:
        standing.append("succeeded")
    return tuple(standing)


def _last_end(status: ContainerStatus) -> ContainerStateTerminated | None:
    """Return how a container that is not running ended; if it waits to run again, how it ended the last time."""
    if status.state.terminated:
        return status.state.terminated
    return status.last_state.terminated if status.state.waiting else None


def _restartable(container: Container, spec: PodSpec, ended: ContainerStateTerminated) -> bool:
    return ended.reason == RESTARTING_ALL_CONTAINERS or container_should_restart(container, spec, ended.exit_code)


def statuses_by_name(statuses: Iterable[ContainerStatus]) -> Mapping[str, ContainerStatus]:
    """Return container statuses by name; if several have one name, the first of them."""
    found: dict[str, ContainerStatus] = {}
    for status in statuses:
        found.setdefault(status.name, status)
    return found
