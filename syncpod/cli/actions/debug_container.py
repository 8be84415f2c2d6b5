"""Builds debug containers from the flags of ``syncpod debug``; problems are reported with the flag that caused them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from syncpod.pod.origin import SOURCE_ANNOTATION
from syncpod.pod.problems import lines
from syncpod.pod.static import HASH_ANNOTATION

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
"""The securityContext of each profile, by name (cmd/debug/profiles.go, v1.36)."""
_CLEARED: Final = ("baseline", "restricted")
"""The profiles that take nothing over from the securityContext of a copied container."""
ALL_CONTAINERS: Final = "*"
"""The name with which ``--set-image`` means all containers."""

_FLAGS: Final[Mapping[str, str]] = {
    "name": "--container",
    "image": "--image",
    "imagePullPolicy": "--image-pull-policy",
    "targetContainerName": "--target",
    "env": "--env",
    "shareProcessNamespace": "--share-processes",
}
"""The flag of each field, for problems."""

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_MARKS: Final = (SOURCE_ANNOTATION, HASH_ANNOTATION)
"""Annotations that would make a copy a pod of its original's source."""


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


@dataclass(frozen=True)
class CopyRequest:
    """The copy of a pod to debug, from the command line."""

    name: str
    """The name of the copy; "" = the pod itself is debugged."""
    images: Mapping[str, str] = field(default_factory=dict)
    """The images of containers, by their names or :data:`ALL_CONTAINERS`."""
    share_processes: bool | None = None
    """Whether the containers share processes; None = yes, unless the pod says otherwise."""
    replace: bool = False
    """Whether the pod is deleted once there is a copy."""
    kept: frozenset[str] = frozenset()
    """The fields that the copy keeps: labels, annotations, livenessProbe, readinessProbe, startupProbe."""
    init_containers: bool | None = None
    """Whether the copy keeps the pod's init containers; None = yes."""
    is_same_node_given: bool = False
    """Whether ``--same-node`` is given; the copy always runs on the pod's node."""


def default_profile(pod: Pod) -> str:
    """Return the default profile: general, as in kubectl, or baseline if containers cannot have capabilities.

    The embedded runtime without root refuses a container that requests a capability.
    """
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ids = [status.container_id or "" for status in statuses]
    embedded = any(id_.startswith("syncpod-embedded://") for id_ in ids)
    return "baseline" if embedded and os.geteuid() != 0 else "general"


def require_image_name(image: str, flag: str = "--image") -> None:
    """Raise BadInput for an invalid image name (cmd/debug/debug.go, v1.36, Validate).

    A pod accepts it and waits with InvalidImageName, but an ephemeral container can be neither changed nor removed.
    """
    if parse_image_name(image) is None:
        raise BadInput(
            f"{flag}: {image!r} is not an image name: write it as busybox, registry.example/app:1 or app@sha256:…"
        )


def images_of(given: Sequence[str]) -> dict[str, str]:
    """Return the images of ``--set-image``, each ``NAME=IMAGE`` or several with commas. Raises BadInput."""
    images = {}
    for each in (one for text in given for one in text.split(",")):
        name, equals, image = each.partition("=")
        if not (name and equals):
            raise BadInput(f"--set-image: {each!r}: must be NAME=IMAGE, with * for all containers")
        require_image_name(image, "--set-image")
        images[name] = image
    return images


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


def debug_copy(pod: Pod, wanted: DebugRequest, copy: CopyRequest) -> tuple[Admission, str]:
    """Return a copy of the pod, and the name of the container in it that is to be debugged; "" = only images differ.

    That is the pod's container of the wanted name, with another image, command line or rights, or else an added
    container. Unless they are to be kept, the copy has no labels and annotations, which would identify it as the pod,
    and no probes, which could end it (cmd/debug/debug.go, v1.36, generatePodCopyWithDebugContainer). Raises BadInput
    naming flags. Differences: without a scheduler, the copy runs on the pod's node; a copy in which only images differ
    has no labels, annotations and probes either; an image for a container that is missing is refused.
    """
    document = pod_to_wire(pod)
    left_out = {"ephemeralContainers", *(() if copy.init_containers is not False else ("initContainers",))}
    spec = {key: value for key, value in document["spec"].items() if key not in left_out}
    gone = {probe for probe in _PROBES if probe not in copy.kept}
    spec["containers"] = [{key: value for key, value in each.items() if key not in gone} for each in spec["containers"]]
    _set_images(spec["containers"], copy.images)
    name, path = _debugged(spec, wanted, copy)
    if copy.share_processes is not None:
        spec["shareProcessNamespace"] = copy.share_processes
    elif name and not spec.get("hostPID"):
        spec.setdefault("shareProcessNamespace", True)
    kept: dict[str, dict[str, str]] = {
        key: document["metadata"].get(key, {}) for key in ("labels", "annotations") if key in copy.kept
    }
    for mark in _MARKS:
        kept.get("annotations", {}).pop(mark, None)
    metadata = {"name": copy.name, "namespace": pod.metadata.namespace, **kept}
    try:
        return admit({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}), name
    except PodInvalid as invalid:
        raise _refused(invalid, path) from None


def _set_images(containers: Sequence[dict[str, Any]], images: Mapping[str, str]) -> None:
    """Give the containers these images; an image for a container's name precedes the one for all. Raises BadInput."""
    names = [each["name"] for each in containers]
    if missing := [name for name in images if name not in (*names, ALL_CONTAINERS)]:
        raise BadInput(f"--set-image: {missing[0]} is none of the pod's containers: {', '.join(names)}")
    for each in containers:
        each["image"] = images.get(each["name"], images.get(ALL_CONTAINERS, each["image"]))


def _debugged(spec: dict[str, Any], wanted: DebugRequest, copy: CopyRequest) -> tuple[str, str]:
    """Change the wanted container of a copy's spec, or add one; return its name and its path. Raises BadInput."""
    for kind in ("containers", "initContainers"):
        for at, each in enumerate(spec.get(kind, ())):
            if wanted.name == each["name"]:
                spec[kind][at] = _changed(each, wanted)
                return wanted.name, f"spec.{kind}[{at}]."
    if not wanted.image:
        if not copy.images or wanted.name:
            raise BadInput(f"--container: the pod has no {wanted.name}: name an image for a new one with --image")
        return "", ""
    names = [each["name"] for kind in ("containers", "initContainers") for each in spec.get(kind, ())]
    spec["containers"] = [*spec["containers"], _document(wanted, names)]
    return spec["containers"][-1]["name"], f"spec.containers[{len(spec['containers']) - 1}]."


def _changed(container: Mapping[str, Any], wanted: DebugRequest) -> dict[str, Any]:
    """Return a container of the pod, changed for debugging.

    Fields that `wanted` leaves open stay, except the streams.
    """
    changed = {**container, "stdin": wanted.stdin, "stdinOnce": wanted.stdin_once, "tty": wanted.tty}
    if wanted.command and not wanted.arguments_only:
        changed.pop("args", None)
    if wanted.command:
        changed["args" if wanted.arguments_only else "command"] = list(wanted.command)
    if wanted.env:
        changed["env"] = [_variable(each) for each in wanted.env]
    if wanted.image:
        changed["image"] = wanted.image
    if wanted.pull_policy:
        changed["imagePullPolicy"] = wanted.pull_policy
    before = changed.pop("securityContext", {})
    before = {} if wanted.profile in _CLEARED else before
    profile = dict(_profile(wanted.profile))
    if added := profile.get("capabilities", {}).get("add"):
        known = before.get("capabilities", {})
        profile["capabilities"] = {**known, "add": list(dict.fromkeys((*known.get("add", ()), *added)))}
    context = {**before, **profile}
    return {**changed, **({"securityContext": context} if context else {})}


def _profile(name: str) -> Mapping[str, Any]:
    """Return the securityContext of a profile. Raises BadInput."""
    if name not in PROFILES:
        raise BadInput(f"--profile: must be {', '.join(PROFILES)}, not {name!r}")
    return PROFILES[name]


def _document(wanted: DebugRequest, taken: Sequence[str]) -> dict[str, Any]:
    """Return a new container as in a manifest."""
    profile = _profile(wanted.profile)
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
    path = problem.path.removeprefix(container).removeprefix("spec.")
    flag = _FLAGS.get(path.partition("[")[0].partition(".")[0])
    return Problem(flag, problem.message) if flag else problem
