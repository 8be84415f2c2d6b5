"""Builds debug containers from the flags of ``syncpod debug``; problems are reported with the flag that caused them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncpod.cli.failure import BadInput
from syncpod.cli.machine.containers import container_names
from syncpod.pod import (
    Admission,
    EphemeralContainer,
    Pod,
    PodInvalid,
    Problem,
    admit,
    admit_ephemeral_container,
    pod_to_wire,
)
from syncpod.pod.images import parse_image_name
from syncpod.pod.problems import lines

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of generated names in Kubernetes: no vowels, so that no words come out."""
_SUFFIX: Final = 5

PROFILES: Final[Mapping[str, Mapping[str, Any]]] = {
    "general": {"capabilities": {"add": ["SYS_PTRACE"]}},
    "baseline": {},
    "restricted": {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "netadmin": {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
    "sysadmin": {"privileged": True},
}
"""The securityContext of each profile, by name (cmd/debug/profiles.go, v1.36, for ephemeral containers)."""

_FLAGS: Final[Mapping[str, str]] = {
    "name": "--container",
    "image": "--image",
    "imagePullPolicy": "--image-pull-policy",
    "targetContainerName": "--target",
    "env": "--env",
}


def default_profile(pod: Pod) -> str:
    """Return the default profile: general, as in kubectl, or baseline if containers cannot have capabilities.

    The embedded runtime without root refuses a container that requests a capability.
    """
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ids = [status.container_id or "" for status in statuses]
    embedded = any(id_.startswith("syncpod-embedded://") for id_ in ids)
    return "baseline" if embedded and os.geteuid() != 0 else "general"


_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


@dataclass(frozen=True)
class DebugRequest:
    """A debug container, from the command line."""

    image: str
    name: str = ""
    """The container's name; "" = generate one."""
    target: str = ""
    """The container whose processes the debug container can see; "" = none."""
    command: tuple[str, ...] = ()
    """The container's command line; () = the image's."""
    arguments_only: bool = False
    """Whether `command` has arguments for the image's entry point."""
    env: tuple[str, ...] = ()
    """The environment variables, each as ``NAME=VALUE``."""
    pull_policy: str = ""
    """The image pull policy; "" = Always for the tag latest, else IfNotPresent."""
    profile: str = ""
    """The profile's name; "" until `default_profile` replaces it, once the pod is known."""
    stdin: bool = False
    stdin_once: bool = False
    """Whether the container's input is closed when the input of the first attached client ends."""
    tty: bool = False


def require_image_name(image: str) -> None:
    """Raise BadInput for an invalid image name (cmd/debug/debug.go, v1.36, Validate).

    A pod accepts it and waits with InvalidImageName, but an ephemeral container can be neither changed nor removed.
    """
    if parse_image_name(image) is None:
        raise BadInput(
            f"--image: {image!r} is not an image name: write it as busybox, registry.example/app:1 or app@sha256:…"
        )


def debug_container(pod: Pod, wanted: DebugRequest) -> EphemeralContainer:
    """Return the ephemeral container for the pod, checked (cmd/debug/debug.go, v1.36, generateDebugContainer).

    Raises BadInput naming flags. Differences: the pod keeps its labels; a profile cannot be customized.
    """
    document = _document(wanted, container_names(pod))
    if wanted.target:
        document["targetContainerName"] = wanted.target
    try:
        return admit_ephemeral_container(pod, document)
    except PodInvalid as invalid:
        raise _refused(invalid, "ephemeralContainer.") from None


def debug_copy(pod: Pod, wanted: DebugRequest, name: str, *, share_processes: bool) -> tuple[Admission, str]:
    """Return a copy of the pod under another name with the container added, and the container's name.

    It has no labels and annotations, which would identify it as the pod, and no probes, which could end it. With
    `share_processes`, its containers share processes unless the pod says otherwise (cmd/debug/debug.go, v1.36,
    generatePodCopyWithDebugContainer). Raises BadInput naming flags. Differences: without a scheduler, the copy runs on
    the pod's node; no container of the pod is replaced by the debug container.
    """
    document = pod_to_wire(pod)
    container = _document(wanted, container_names(pod))
    spec = {key: value for key, value in document["spec"].items() if key != "ephemeralContainers"}
    kept = [{key: value for key, value in each.items() if key not in _PROBES} for each in spec["containers"]]
    if share_processes and not spec.get("hostPID"):
        spec.setdefault("shareProcessNamespace", True)
    copy = {
        **{key: document[key] for key in ("apiVersion", "kind")},
        "metadata": {"name": name, "namespace": pod.metadata.namespace},
        "spec": {**spec, "containers": [*kept, container]},
    }
    try:
        return admit(copy), container["name"]
    except PodInvalid as invalid:
        raise _refused(invalid, f"spec.containers[{len(kept)}].") from None


def _document(wanted: DebugRequest, taken: Sequence[str]) -> dict[str, Any]:
    """Return the container as in a manifest."""
    if wanted.profile not in PROFILES:
        raise BadInput(f"--profile: must be {', '.join(PROFILES)}, not {wanted.profile!r}")
    profile = PROFILES[wanted.profile]
    return {
        "name": wanted.name or _made_up_name(taken),
        "image": wanted.image,
        "env": [_variable(each) for each in wanted.env],
        "args" if wanted.arguments_only else "command": list(wanted.command),
        "stdin": wanted.stdin,
        "stdinOnce": wanted.stdin_once,
        "tty": wanted.tty,
        **({"imagePullPolicy": wanted.pull_policy} if wanted.pull_policy else {}),
        **({"securityContext": profile} if profile else {}),
    }


def _made_up_name(taken: Sequence[str]) -> str:
    while True:
        name = "debugger-" + "".join(secrets.choice(_LETTERS) for _ in range(_SUFFIX))
        if name not in taken:
            return name


def _variable(given: str) -> dict[str, str]:
    name, equals, value = given.partition("=")
    if not equals:
        raise BadInput(f"--env: {given!r}: must be NAME=VALUE")
    return {"name": name, "value": value}


def _refused(invalid: PodInvalid, container: str) -> BadInput:
    """Return the error for an invalid container at this path: a line for each problem, with its flag."""
    return BadInput("\n".join(lines(_by_flag(each, container) for each in invalid.problems)))


def _by_flag(problem: Problem, container: str) -> Problem:
    """Replace a field's path by its flag, if it has one; `container` is the path of the container."""
    if problem.path == "metadata.name":
        return Problem("--copy-to", problem.message)
    field = problem.path.removeprefix(container)
    flag = _FLAGS.get(field.partition("[")[0].partition(".")[0])
    return Problem(flag, problem.message) if flag else problem
