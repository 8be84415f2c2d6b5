"""The end of a pod: the grace of each container, and which containers wait for which.

A container's own time to stop is computed in three steps, in whole seconds:

1. `pod_grace_seconds`: the grace of the pod as a whole. A later deletion can only shorten it.
2. `kill_grace_seconds`: the grace of one container, depending on why it is killed.
3. `stop_timeout_seconds`: the timeout of StopContainer, which is the rest of that grace after the container's preStop
   hook and its wait for other containers.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.restart import is_sidecar
from syncpod.pod import Container, Pod, PodSpec

MINIMUM_POD_GRACE_SECONDS: Final = 1
"""The least grace of a pod, even for a deletion with a grace period of 0."""

MINIMUM_STOP_SECONDS: Final = 2
"""The least grace of a container, so that SIGKILL does not follow SIGTERM at once."""

LONGEST_SECONDS: Final = 100 * 365 * 86_400
"""A hundred years. A longer time is cut to this, so that no sum exceeds the dates that Python has."""


def moment_after(now: datetime, seconds: int) -> datetime:
    """Return the time `seconds` after `now`: never in the past, and at most a hundred years ahead.

    Use it for numbers from users: the API takes any 64-bit number. Difference: Go's arithmetic wraps, so in the kubelet
    a grace of 2^63-1 s may be over at once; here it lasts a hundred years.
    """
    return now + timedelta(seconds=min(max(0, seconds), LONGEST_SECONDS))


def pod_grace_seconds(pod: Pod) -> int:
    """Return the grace period of a terminating pod, at least 1 s: the deletion's, else the spec's.

    A later deletion can only shorten `metadata.deletionGracePeriodSeconds`.

    Mirrors pod_workers.go, v1.36, calculateEffectiveGracePeriod. Difference: the kubelet takes 0 for "not set", so a
    later deletion can extend a grace of 0 s; here 0 is a value like any other.
    """
    deletion, own = pod.metadata.deletion_grace_period_seconds, pod.spec.termination_grace_period_seconds
    return max((own or 0) if deletion is None else deletion, MINIMUM_POD_GRACE_SECONDS)


def kill_grace_seconds(pod: Pod, container: Container | None, cause: KillCause | None = None) -> int:
    """Return the grace period for the kill of one container, in seconds from the order to kill it; can be 0.

    It is the first of these that is set: the deletion's; the probe's, if its failure is the cause; the pod's; 2 s.
    `container` is None if the spec does not have it any more.

    Mirrors kuberuntime_container.go, v1.36, setTerminationGracePeriod and killContainer. Difference: in the kubelet a
    probe's grace counts only if the pod has a grace too, which every pod with defaults has.
    """
    probe = None
    if container is not None and cause == KillCause.LIVENESS:
        probe = container.liveness_probe
    elif container is not None and cause == KillCause.STARTUP:
        probe = container.startup_probe
    sources = (
        pod.metadata.deletion_grace_period_seconds,
        probe.termination_grace_period_seconds if probe is not None else None,
        pod.spec.termination_grace_period_seconds,
    )
    return next((seconds for seconds in sources if seconds is not None), MINIMUM_STOP_SECONDS)


def stop_timeout_seconds(grace: int, *, waited_seconds: float = 0.0) -> int:
    """Return the timeout for StopContainer: `grace` minus the time since the order to kill, but at least 2 s.

    That time includes the preStop hook and the wait for other containers. Only whole seconds are deducted. The minimum
    is applied last, so a container can take up to 2 s longer than its grace period. Mirrors kuberuntime_container.go,
    v1.36, killContainer.
    """
    return max(grace - int(waited_seconds), MINIMUM_STOP_SECONDS)


def termination_order(spec: PodSpec, running: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the containers that must end before each running container gets its signal, by name.

    Main containers, plain init containers and ephemeral containers wait for no others. A sidecar waits for every main
    container and for every sidecar listed after it. So sidecars end in reverse order, and each ends after all
    containers that may need it. Nothing waits for containers that do not run. A container waits at most for its grace
    period; then it is stopped.

    Keys are in the order of `running`; values are in the order in which they must end.

    Mirrors kuberuntime_termination_order.go, v1.36. Difference: in the kubelet a sidecar waits only for the next
    sidecar in the list, and for none if that sidecar has ended by itself. Here it waits for all later ones.
    """
    names = tuple(dict.fromkeys(running))
    before = [container.name for container in spec.containers if container.name in names]
    waits_for: dict[str, tuple[str, ...]] = {name: () for name in names}
    for container in reversed(spec.init_containers):
        if is_sidecar(container) and container.name in waits_for:
            waits_for[container.name] = tuple(before)
            before.append(container.name)
    return waits_for
