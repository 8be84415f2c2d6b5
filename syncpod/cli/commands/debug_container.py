"""A debug container as ``debug`` makes it: its name, its profile, and what is wrong with it by the flag's name."""

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
from syncpod.pod.problems import sentence

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Of which names that are made up consist in Kubernetes: no vowels, so that they never are words."""
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
"""By name: the securityContext that the container gets (cmd/debug/profiles.go, v1.36, for ephemeral containers)."""

_FLAGS: Final[Mapping[str, str]] = {
    "name": "--container",
    "image": "--image",
    "imagePullPolicy": "--image-pull-policy",
    "targetContainerName": "--target",
    "env": "--env",
}


def default_profile(pod: Pod) -> str:
    """Return the profile of who names none: general, as kubectl's, or baseline where nobody can be given a capability.

    That is on the embedded runtime without root: a container that asks for one is refused there.
    """
    ids = [status.container_id or "" for status in (pod.status.container_statuses or ())]
    embedded = any(id_.startswith("syncpod-embedded://") for id_ in ids)
    return "baseline" if embedded and os.geteuid() != 0 else "general"


_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


@dataclass(frozen=True)
class Wanted:
    """A debug container as the command line says it."""

    image: str
    name: str = ""
    """"" = one is made up."""
    target: str = ""
    """The container whose processes it is to see; "" = none."""
    command: tuple[str, ...] = ()
    """Its command line, empty = the image's."""
    arguments_only: bool = False
    """`command` are arguments of the image's own program."""
    env: tuple[str, ...] = ()
    """Each ``NAME=VALUE``."""
    pull_policy: str = ""
    """"" = the image's: Always for the tag latest, else IfNotPresent."""
    profile: str = ""
    """"" = `default_profile`, which is put in its place once the pod is known."""
    stdin: bool = False
    stdin_once: bool = False
    """Its input ends with that of the first who is attached."""
    tty: bool = False


def require_image_name(image: str) -> None:
    """Raise BadInput for what is no image's name (cmd/debug/debug.go, v1.36, Validate).

    A pod takes it, and waits with InvalidImageName; but an ephemeral container cannot be mended or taken away again.
    """
    if parse_image_name(image) is None:
        raise BadInput(
            f"--image: {image!r} is no image's name: write it as busybox, registry.example/app:1 or app@sha256:…"
        )


def debug_container(pod: Pod, wanted: Wanted) -> EphemeralContainer:
    """Return the container that is to join the pod, checked (cmd/debug/debug.go, v1.36, generateDebugContainer).

    Raises BadInput, by flags. Differences: the pod keeps its labels; a profile cannot be customized.
    """
    document = _document(wanted, container_names(pod))
    if wanted.target:
        document["targetContainerName"] = wanted.target
    try:
        return admit_ephemeral_container(pod, document)
    except PodInvalid as invalid:
        raise BadInput(sentence(_by_flag(each, "ephemeralContainer.") for each in invalid.problems)) from None


def debug_copy(pod: Pod, wanted: Wanted, name: str, *, share_processes: bool) -> tuple[Admission, str]:
    """Return a copy of the pod under another name with the container in it, and what the container is called.

    Without the pod's labels and annotations, which would take it for the pod, and without probes, which would end what
    is looked at; with `share_processes`, and where the pod does not say otherwise, its containers see one another
    (cmd/debug/debug.go, v1.36, generatePodCopyWithDebugContainer). Raises BadInput, by flags. Differences: nothing
    schedules, so the copy runs on the pod's node; the container is always a further one.
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
        here = f"spec.containers[{len(kept)}]."
        raise BadInput(sentence(_by_flag(each, here) for each in invalid.problems)) from None


def _document(wanted: Wanted, taken: Sequence[str]) -> dict[str, Any]:
    """Return the container as a manifest has it."""
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


def _by_flag(problem: Problem, container: str) -> Problem:
    """Name the flag that a field comes from, where there is one; `container` is where the container stands."""
    if problem.path == "metadata.name":
        return Problem("--copy-to", problem.message)
    field = problem.path.removeprefix(container)
    flag = _FLAGS.get(field.partition("[")[0].partition(".")[0])
    return Problem(flag, problem.message) if flag else problem
