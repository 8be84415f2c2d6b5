"""Decides whether a container is started again, by the restart policies of pod and container, and by restart rules.

Three questions look alike, but are not:

- `container_should_restart`: it *has exited* with this code. Rules count, then its own policy, then the pod's.
- `restarts_on_failure`: it is *being killed*, or nobody knows how it ended. There is no exit code, so no rule applies.
- `should_container_be_restarted`: given the newest instance of a main container, must it be started now?
"""

from __future__ import annotations

from syncpod.lifecycle.observed import ObservedContainer
from syncpod.pod import Container, ContainerRestartRule, Pod, PodSpec


def is_sidecar(container: Container) -> bool:
    """Say whether an *init* container is a sidecar, which runs beside the main containers and always restarts.

    Mirrors pkg/api/v1/pod/util.go, v1.36, IsRestartableInitContainer.
    """
    return container.restart_policy == "Always"


def restart_policy(container: Container, spec: PodSpec) -> str:
    """Return the policy that governs a container: its own, else its pod's, else `Always`."""
    return container.restart_policy or spec.restart_policy or "Always"


def restarts_on_failure(container: Container, spec: PodSpec) -> bool:
    """Say whether a container that has no exit code (killed while running, or lost) is started again.

    Mirrors kuberuntime_manager.go, v1.36, shouldRestartOnFailure, with the container's own policy over the pod's.
    """
    return restart_policy(container, spec) != "Never"


def matching_rule(container: Container, exit_code: int) -> ContainerRestartRule | None:
    """Return the first restart rule that holds for an exit code, or None.

    Mirrors pkg/api/v1/pod/util.go, v1.36, FindMatchingContainerRestartRule.
    """
    for rule in container.restart_policy_rules:
        codes = rule.exit_codes
        if codes is None:
            continue
        listed = exit_code in codes.values
        if (codes.operator == "In" and listed) or (codes.operator == "NotIn" and not listed):
            return rule
    return None


def container_should_restart(container: Container, spec: PodSpec, exit_code: int) -> bool:
    """Say whether a container that exited with `exit_code` is started again.

    A matching rule means yes, with either of its two actions; `restart_all` has the further effect of
    `RestartAllContainers`. Rules count only if the container has its own restart policy; the API refuses them
    otherwise. Mirrors pkg/api/v1/pod/util.go, v1.36, ContainerShouldRestart.
    """
    if container.restart_policy and matching_rule(container, exit_code) is not None:
        return True
    policy = restart_policy(container, spec)
    if policy == "OnFailure":
        return exit_code != 0
    return policy != "Never"


def should_container_be_restarted(container: Container, pod: Pod, status: ObservedContainer | None) -> bool:
    """Say whether a container must be started, given its newest instance (None: the runtime has none).

    Nothing starts in a pod that is being deleted. A container that never ran, or whose state was lost, starts.
    Mirrors container/helpers.go, v1.36, ShouldContainerBeRestarted.
    """
    if pod.metadata.deletion_timestamp is not None:
        return False
    if status is None:
        return True
    if status.state == "running":
        return False
    if status.state != "exited":
        return True
    return container_should_restart(container, pod.spec, status.exit_code)
