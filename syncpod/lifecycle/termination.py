"""How a pod ends: how long each container is given, and which waits for which.

A container's own time to stop is found in three steps, in whole seconds:

1. `pod_grace_seconds`: what the pod as a whole is given. It only ever shrinks while the pod terminates.
2. `kill_grace_seconds`: what one container is given, depending on why it is killed.
3. `stop_timeout_seconds`: what is left of that for StopContainer after its preStop hook and its wait for its turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from syncpod.lifecycle.actions import KillReason
from syncpod.lifecycle.restart import is_sidecar
from syncpod.pod import Container, Pod, PodSpec

MINIMUM_POD_GRACE_SECONDS: Final = 1
"""What a pod is given at the least, even by a deletion with a grace period of 0."""

MINIMUM_STOP_SECONDS: Final = 2
"""What a container is given at the least, so that SIGKILL does not follow SIGTERM on its heels."""

LONGEST_SECONDS: Final = 100 * 365 * 86_400
"""A hundred years. Whoever asks for more than that means for ever, and no calendar has the day on which it is over."""


def moment_after(now: datetime, seconds: int) -> datetime:
    """Return the moment `seconds` after `now`, a hundred years ahead at the most, and never one that is past.

    For numbers that a person has typed: the API takes any of 64 bits. Difference: Go's arithmetic wraps, so that there
    a grace of 2^63-1 s may be over at once; here it is for ever.
    """
    return now + timedelta(seconds=min(max(0, seconds), LONGEST_SECONDS))


def pod_grace_seconds(pod: Pod, *, requested: int | None = None, in_force: int | None = None) -> int:
    """Return the grace period of a terminating pod, at least 1 s.

    The least of what its deletion says (`metadata.deletionGracePeriodSeconds`), what whoever kills it asks for
    (`requested`) and what has been `in_force` since it began to terminate; without any of them, its spec's.

    Mirrors pod_workers.go, v1.36, calculateEffectiveGracePeriod. Difference: the kubelet takes a 0 for "not said", so
    that there a deletion with 0 s can be outbid by a later one; here 0 is a value like any other.
    """
    said = [
        seconds for seconds in (pod.metadata.deletion_grace_period_seconds, requested, in_force) if seconds is not None
    ]
    grace = min(said) if said else pod.spec.termination_grace_period_seconds or 0
    return max(grace, MINIMUM_POD_GRACE_SECONDS)


def kill_grace_seconds(
    pod: Pod, container: Container | None, reason: KillReason = "", *, override: int | None = None
) -> int:
    """Return the grace period for the kill of one container, before hook and waiting are deducted; can be 0.

    The first that is there of: `override`; the deletion's; the failed probe's own, when that is the reason; the pod's;
    2 s. `container` is None when the spec does not name it (any more).

    Mirrors kuberuntime_container.go, v1.36, setTerminationGracePeriod and killContainer. Difference: there a probe's
    own counts only beside one of the pod's, which no pod with its defaults is without.
    """
    probe = None
    if container is not None and reason == "LivenessProbe":
        probe = container.liveness_probe
    elif container is not None and reason == "StartupProbe":
        probe = container.startup_probe
    sources = (
        override,
        pod.metadata.deletion_grace_period_seconds,
        probe.termination_grace_period_seconds if probe is not None else None,
        pod.spec.termination_grace_period_seconds,
    )
    return next((seconds for seconds in sources if seconds is not None), MINIMUM_STOP_SECONDS)


def stop_timeout_seconds(grace: int, *, hook_seconds: float = 0.0, waited_seconds: float = 0.0) -> int:
    """Return the timeout for StopContainer: what hook and waiting have left of `grace`, but at least 2 s.

    Of both only whole seconds are deducted. The floor comes last, so a container can take up to 2 s longer than its
    grace period. Mirrors kuberuntime_container.go, v1.36, killContainer.
    """
    return max(grace - int(hook_seconds) - int(waited_seconds), MINIMUM_STOP_SECONDS)


def termination_order(spec: PodSpec, running: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Say for each running container (by name) which others have to end before it is sent its signal.

    Main containers, plain init containers and ephemeral containers wait for none. A sidecar waits for every main
    container and for every sidecar listed after it, so that sidecars end in the reverse of their order, each once
    nobody is left that may need it. Containers that do not run are waited for by none. How long a container waits is
    bounded by its grace period: whoever carries this out stops it when that is used up, its turn or not.

    Keys are in the order of `running`; values in the order in which they are to end.

    Mirrors kuberuntime_termination_order.go, v1.36. Difference: there a sidecar waits only for the one listed next,
    and so no longer for those beyond it once that one has ended by itself; here it waits for all of them.
    """
    names = tuple(dict.fromkeys(running))
    before = [container.name for container in spec.containers if container.name in names]
    waits_for: dict[str, tuple[str, ...]] = {name: () for name in names}
    for container in reversed(spec.init_containers):
        if is_sidecar(container) and container.name in waits_for:
            waits_for[container.name] = tuple(before)
            before.append(container.name)
    return waits_for
