"""Init containers and sidecars: which to start, which to kill, and whether the main containers may run.

Init containers are decided from the last to the first. The last one that the runtime lists shows how far the pod has
come: the plain ones before it have completed, and the sidecars before it are kept running. So a sync starts at most one
plain init container, but any number of sidecars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from syncpod.lifecycle.actions import ContainerToKill
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.kubelet_version import KubeletVersion
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.lifecycle.pod_resources import PodResources
from syncpod.lifecycle.resize import RESTART_MESSAGE, Resize, container_resize
from syncpod.lifecycle.restart import is_sidecar, restarts_on_failure, should_container_be_restarted
from syncpod.pod import Container, Pod, PodSpec, container_hash

UNKNOWN_INIT_MESSAGE = 'Init container is in "unknown" state, try killing it before restart'


@dataclass(frozen=True, slots=True)
class InitActions:
    """The actions for the init containers of a pod."""

    initialized: bool
    """The main containers may run."""
    failed: bool = False
    """An init container failed for good: the pod is over."""
    to_start: tuple[int, ...] = ()
    """Indices in `spec.initContainers`, in the order to start them."""
    to_kill: tuple[ContainerToKill, ...] = ()
    resizes: tuple[Resize, ...] = ()
    """In-place resizes in the order decided: last init container first."""


@dataclass(frozen=True, slots=True)
class _InitDecision:
    """The action for one init container that has been reached."""

    start: bool = False
    """Start it, for the first time or again."""
    passed: bool = False
    """The next init container need not wait for it: it completed, or it is a sidecar that has started."""
    failed: bool = False
    """It failed and must not run again."""
    kill: ContainerToKill | None = None
    resize: Resize | None = None


def compute_init_actions(
    pod: Pod,
    observed: ObservedPod,
    *,
    liveness: Mapping[str, str],
    startup: Mapping[str, str],
    actuated: PodResources,
    kubelet: KubeletVersion,
) -> InitActions:
    """Decide init containers and sidecars of a pod whose sandbox is good.

    Probe results are by container id, and a missing result differs from `unknown`. Mirrors kuberuntime_container.go,
    v1.36 and v1.37, computeInitContainerActions.
    """
    if not pod.spec.init_containers:
        return InitActions(initialized=True)
    everywhere = statuses = observed.newest_by_name()
    if kubelet.looks_at_newest_sandbox_only:
        statuses = observed.in_newest_sandbox().newest_by_name()
        initialized = any(container.name in statuses for container in pod.spec.containers)
    else:
        initialized = _any_main_container_active(pod.spec, statuses)
    decisions = _decide_from_last_to_first(
        pod, statuses, everywhere, initialized=initialized, liveness=liveness, startup=startup, actuated=actuated
    )
    up_next: tuple[int, ...] = ()
    if not initialized:
        if not decisions:
            return InitActions(initialized=False, to_start=(0,))
        stands_at, newest = decisions[0]
        if newest.failed:
            return InitActions(initialized=False, failed=True)
        initialized = newest.passed and stands_at == len(pod.spec.init_containers) - 1
        up_next = (stands_at + 1,) if newest.passed and not initialized else ()
    to_start = (*up_next, *(index for index, decision in decisions if decision.start))
    return InitActions(
        initialized=initialized,
        to_start=tuple(reversed(to_start)),
        to_kill=tuple(decision.kill for _, decision in decisions if decision.kill is not None),
        resizes=tuple(decision.resize for _, decision in decisions if decision.resize is not None),
    )


def _decide_from_last_to_first(
    pod: Pod,
    statuses: Mapping[str, ObservedContainer],
    newest: Mapping[str, ObservedContainer],
    *,
    initialized: bool,
    liveness: Mapping[str, str],
    startup: Mapping[str, str],
    actuated: PodResources,
) -> list[tuple[int, _InitDecision]]:
    """Decide the last init container that has begun, and the sidecars before it.

    Each decision is returned with the container's index in the spec, the last container first. The plain init
    containers before that one have completed. The sidecars before it have started once, so a missing one starts again.
    `statuses` are the instances to judge. The `newest` instances may be of an earlier sandbox; as in the kubelet, they
    decide whether a failed init container restarts.
    """
    found: list[tuple[int, _InitDecision]] = []
    for index, container in reversed(list(enumerate(pod.spec.init_containers))):
        status = statuses.get(container.name)
        has_later = initialized or bool(found)
        if is_sidecar(container) and status is not None:
            decision = _decide_sidecar(
                container, pod.spec, status, liveness=liveness, startup=startup, actuated=actuated
            )
            found.append((index, decision))
        elif is_sidecar(container) and has_later:
            found.append((index, _InitDecision(start=True)))
        elif status is not None and not has_later:
            found.append((index, _decide_plain(container, pod, status, newest[container.name], actuated=actuated)))
    return found


def _decide_plain(
    container: Container, pod: Pod, status: ObservedContainer, newest: ObservedContainer, *, actuated: PodResources
) -> _InitDecision:
    """Decide a plain init container, the last one that has begun."""
    match status.state:
        case "created":
            # One step creates and starts a container. That step has failed between the two, and no other step starts
            # the container.
            return _InitDecision(start=True)
        case "running":
            return _resized(container, pod.spec, status, actuated)
        case "exited":
            if status.exit_code == 0 and status.reason != "OOMKilled":
                return _InitDecision(passed=True)
            restarts = should_container_be_restarted(container, pod, newest)
            return _InitDecision(start=restarts, failed=not restarts)
        case "unknown":
            if not restarts_on_failure(container, pod.spec):
                return _InitDecision(failed=True)
            return _InitDecision(start=True, kill=container_to_kill(status, UNKNOWN_INIT_MESSAGE, KillCause.STATE_LOST))


def _decide_sidecar(
    container: Container,
    spec: PodSpec,
    status: ObservedContainer,
    *,
    liveness: Mapping[str, str],
    startup: Mapping[str, str],
    actuated: PodResources,
) -> _InitDecision:
    """Decide a sidecar, which runs as long as the pod does, under any restart policy of the pod."""
    match status.state:
        case "created" | "exited":
            return _InitDecision(start=True)
        case "running":
            return _decide_running_sidecar(
                container, spec, status, liveness=liveness, startup=startup, actuated=actuated
            )
        case "unknown":
            return _InitDecision(start=True, kill=container_to_kill(status, UNKNOWN_INIT_MESSAGE, KillCause.STATE_LOST))


def _decide_running_sidecar(
    container: Container,
    spec: PodSpec,
    status: ObservedContainer,
    *,
    liveness: Mapping[str, str],
    startup: Mapping[str, str],
    actuated: PodResources,
) -> _InitDecision:
    """Decide about a running sidecar: its startup probe comes first, since later containers wait for its start.

    A probe's result counts only where the spec has that probe (for main containers it counts in any case).
    """
    name = f"Init container {container.name}"
    if container.startup_probe is not None and startup.get(status.id) != "success":
        if startup.get(status.id) == "failure":
            kill = container_to_kill(status, f"{name} failed startup probe", KillCause.STARTUP)
            return _InitDecision(start=True, kill=kill)
        return _InitDecision()  # still starting
    if status.hash != container_hash(container.name, container.image):
        kill = container_to_kill(status, f"{name} definition changed", KillCause.UPDATE)
        return _InitDecision(start=True, passed=True, kill=kill)
    if container.liveness_probe is not None:
        match liveness.get(status.id):
            case "failure":
                kill = container_to_kill(status, f"{name} failed liveness probe", KillCause.LIVENESS)
                return _InitDecision(start=True, passed=True, kill=kill)
            case None:
                return _InitDecision(passed=True)  # before the first result, the sidecar is not even resized
    return _resized(container, spec, status, actuated, passed=True)


def _resized(
    container: Container, spec: PodSpec, status: ObservedContainer, actuated: PodResources, *, passed: bool = False
) -> _InitDecision:
    resize = container_resize(container, spec, actuated, status.id)
    if resize.restart:
        kill = container_to_kill(status, f"Container {container.name} {RESTART_MESSAGE}", KillCause.RESIZE)
        return _InitDecision(start=True, passed=passed, kill=kill, resize=resize)
    return _InitDecision(passed=passed, resize=resize)


def container_to_kill(status: ObservedContainer, message: str, cause: KillCause) -> ContainerToKill:
    """Return the order to kill an instance; `message` is for its `Killing` event."""
    return ContainerToKill(id=status.id, name=status.name, message=message, cause=cause)


def _any_main_container_active(spec: PodSpec, statuses: Mapping[str, ObservedContainer]) -> bool:
    """Say whether a main container is created or running, which proves that the pod is initialized in this sandbox.

    An exited one proves nothing, since it may be of an earlier sandbox.
    """
    found = (statuses.get(container.name) for container in spec.containers)
    return any(status is not None and status.state in ("created", "running") for status in found)
