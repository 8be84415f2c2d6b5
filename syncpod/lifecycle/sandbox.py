"""Decides whether a pod needs a new sandbox, and which containers start in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.lifecycle.restart import restart_policy
from syncpod.pod import PodSpec


@dataclass(frozen=True, slots=True)
class SandboxChange:
    """The verdict on a pod's newest sandbox: the pod keeps it, or needs a new one."""

    changed: bool
    """The pod has no usable sandbox, so it needs a new one."""
    attempt: int
    """Number of the newest sandbox if it is usable, else the number that a new one would have."""
    id: str
    """Id of the newest sandbox; "" when there is none, or when its network namespace is the wrong one."""
    reason: str = ""
    """Why the pod needs a new one, as the kubelet 1.37 words it; "" if it does not."""


def pod_sandbox_changed(spec: PodSpec, observed: ObservedPod) -> SandboxChange:
    """Judge the pod's newest sandbox. Mirrors kuberuntime/util/util.go, v1.37, PodSandboxChanged."""
    if not observed.sandboxes:
        return SandboxChange(changed=True, attempt=0, id="", reason="no pod sandbox exists")
    newest = observed.sandboxes[0]
    several_ready = sum(sandbox.ready for sandbox in observed.sandboxes) > 1
    next_one = SandboxChange(changed=True, attempt=newest.attempt + 1, id=newest.id)
    if several_ready:
        return replace(next_one, reason="multiple pod sandboxes are ready and need to be reconciled")
    if not newest.ready:
        return replace(next_one, reason="pod sandbox is not ready")
    if newest.network_mode != ("NODE" if spec.host_network else "POD"):
        why = "network namespace mode changed and sandbox needs to be recreated"
        return replace(next_one, id="", reason=why)
    # None: the runtime reported no network status. That does not prove that the address is lost.
    if not spec.host_network and newest.ip == "":
        return replace(next_one, reason="pod sandbox has no IP address")
    return SandboxChange(changed=False, attempt=newest.attempt, id=newest.id)


def containers_for_new_sandbox(
    spec: PodSpec, attempt: int, statuses: Mapping[str, ObservedContainer], followed: Collection[str] = ()
) -> tuple[int, ...] | None:
    """Return the indices of the main containers that a new sandbox is for; None if the pod is done and needs none.

    A pod is done when its policy is `Never` and it has run before, or when every main container has succeeded for good.
    `statuses` is the newest instance by name, of any sandbox. `followed` are ids of instances that were ended only to
    be replaced: if the sandbox is lost before the replacement starts, the replacement starts in the next sandbox.
    Mirrors the first half of kuberuntime_manager.go, v1.36, computePodActions. The kubelet needs no `followed`, because
    it kills a container and starts the next one in the same sync.
    """
    follow = {name for name, status in statuses.items() if status.state == "exited" and status.id in followed}
    over = spec.restart_policy == "Never" and attempt != 0 and bool(statuses)
    to_start = tuple(
        index
        for index, container in enumerate(spec.containers)
        if container.name in follow
        or not (
            over or (restart_policy(container, spec) == "OnFailure" and _has_succeeded(statuses.get(container.name)))
        )
    )
    return to_start or None


def _has_succeeded(status: ObservedContainer | None) -> bool:
    return status is not None and status.state == "exited" and status.exit_code == 0
