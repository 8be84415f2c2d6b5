"""RestartAllContainers: the exit of one container restarts the whole pod, in the sandbox that it has."""

from __future__ import annotations

from syncpod.lifecycle.actions import ContainerToReset
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.lifecycle.restart import matching_rule
from syncpod.pod import Container, PodSpec


def should_restart_all(spec: PodSpec, observed: ObservedPod, *, in_progress: bool) -> bool:
    """Say whether the next sync is a RestartAllContainers pass.

    A pass goes on until it has removed all main and init containers. A new pass begins when the newest instance of one
    of these containers has exited with a code whose rule is RestartAllContainers. `in_progress` is True if the pod's
    condition `AllContainersRestarting` is. Do not call this for a pod in a terminal phase.

    Mirrors the part of kubelet_pods.go, v1.36, that reads the runtime's listing: the trigger sets the condition, which
    ends when no main or init container remains.
    """
    statuses = observed.newest_by_name()
    known = [(c, statuses[c.name]) for c in (*spec.containers, *spec.init_containers) if c.name in statuses]
    if in_progress:
        return bool(known)
    return any(_triggers(container, status) for container, status in known)


def containers_to_reset(spec: PodSpec, observed: ObservedPod) -> tuple[ContainerToReset, ...]:
    """List the instances of main and init containers to remove; those that have not exited are killed first.

    Instances that triggered the restart are removed last: while one exists, an interrupted pass begins again. Ephemeral
    containers, and containers that are not in the spec, stay. Mirrors kuberuntime_manager.go, v1.36, computePodActions
    in its RestartAllContainers branch.
    """
    targets: list[ContainerToReset] = []
    sources: list[ContainerToReset] = []
    for group in (spec.containers, spec.init_containers):
        for container in group:
            for status in observed.containers:
                if status.name == container.name:
                    reset = ContainerToReset(id=status.id, name=status.name, kill=status.state != "exited")
                    (sources if _triggers(container, status) else targets).append(reset)
    return (*targets, *sources)


def _triggers(container: Container, status: ObservedContainer) -> bool:
    if status.state != "exited":
        return False
    rule = matching_rule(container, status.exit_code)
    return rule is not None and rule.action == "RestartAllContainers"
