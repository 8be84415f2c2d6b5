"""Checks of annotations that Kubernetes interprets; most of them precede a field with the same meaning."""

import json
import re
from collections.abc import Iterator

from pydantic import TypeAdapter, ValidationError

from syncpod.pod.defaults import APP_ARMOR_ANNOTATION, annotated_profile
from syncpod.pod.kinds import Pod
from syncpod.pod.problems import Problem
from syncpod.pod.restart_settings import check_restart_settings
from syncpod.pod.scheduling import Toleration
from syncpod.pod.security import SeccompProfile
from syncpod.pod.validation import syntax
from syncpod.pod.validation.scheduling import check_tolerations

_MIRROR = "kubernetes.io/config.mirror"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_OF_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_LOCAL_PROFILE = "localhost/"
_SECCOMP_WORDS = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault", "docker/default": "RuntimeDefault"}
_COST = re.compile(r"0|-?[0-9]{1,10}")
_LARGEST_COST = 2**31 - 1
_LIST_OF_TOLERATIONS = TypeAdapter(tuple[Toleration, ...])


def check_pod_annotations(pod: Pod, path: str) -> Iterator[Problem]:
    """Check annotations against their pod (ValidatePodSpecificAnnotations)."""
    annotations = pod.metadata.annotations
    if _MIRROR in annotations and not pod.spec.node_name:
        yield Problem(f"{path}[{_MIRROR}]", "may be set only with spec.nodeName, since only a kubelet sets it")
    if tolerations := annotations.get(_TOLERATIONS):
        yield from _check_written_tolerations(tolerations, f"{path}[{_TOLERATIONS}]")
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_cost(cost):
        yield Problem(f"{path}[{_DELETION_COST}]", "must be an integer of 32 bits")
    yield from _check_app_armor(pod, path)
    yield from _check_seccomp(pod, path)
    yield from check_restart_settings(annotations, path)


def _check_written_tolerations(text: str, path: str) -> Iterator[Problem]:
    try:
        tolerations = _LIST_OF_TOLERATIONS.validate_python(json.loads(text))
    except (ValueError, ValidationError, RecursionError):
        yield Problem(path, "must be a list of tolerations, in JSON")
        return
    yield from check_tolerations(tolerations, path)


def _is_cost(text: str) -> bool:
    """Say whether a text is a 32-bit integer in Go's syntax, without leading zeros."""
    if not _COST.fullmatch(text) or (text[0] == "0" and text != "0"):
        return False
    return -_LARGEST_COST - 1 <= int(text) <= _LARGEST_COST


def _check_app_armor(pod: Pod, path: str) -> Iterator[Problem]:
    """Check the annotations that preceded appArmorProfile: the field, if set, must have the same value."""
    spec = pod.spec
    of_pod = spec.security_context.app_armor_profile if spec.security_context else None
    containers = {one.name: one for one in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)}
    for key, value in pod.metadata.annotations.items():
        if not key.startswith(APP_ARMOR_ANNOTATION):
            continue
        here = f"{path}[{key}]"
        container = containers.get(key.removeprefix(APP_ARMOR_ANNOTATION))
        profile = annotated_profile(value)
        if container is None:
            yield Problem(here, "names no container of this pod")
        elif profile is None:
            yield Problem(here, "must be runtime/default, unconfined or localhost/<profile>")
        elif profile != ((container.security_context and container.security_context.app_armor_profile) or of_pod):
            yield Problem(here, f"must agree with the appArmorProfile of container {container.name}")


def _check_seccomp(pod: Pod, path: str) -> Iterator[Problem]:
    """Check the annotations that preceded seccompProfile, which have had no effect since 1.27."""
    spec = pod.spec
    containers = {one.name: one for one in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)}
    for key, value in pod.metadata.annotations.items():
        if key == _SECCOMP_OF_POD:
            profile = spec.security_context.seccomp_profile if spec.security_context else None
            whose = "the pod"
        elif key.startswith(_SECCOMP_OF_CONTAINER):
            name = key.removeprefix(_SECCOMP_OF_CONTAINER)
            context = containers[name].security_context if name in containers else None
            profile, whose = (context.seccomp_profile if context else None), f"container {name}"
        else:
            continue
        here = f"{path}[{key[:120]}]"
        annotated = _seccomp_profile(value)
        if annotated is None:
            yield Problem(here, "must be runtime/default, unconfined or localhost/<relative path>")
        elif profile is not None and profile != annotated:
            yield Problem(here, f"must agree with the seccompProfile of {whose}")


def _seccomp_profile(value: str) -> SeccompProfile | None:
    if value in _SECCOMP_WORDS:
        return SeccompProfile.model_validate({"type": _SECCOMP_WORDS[value]})
    file = value.removeprefix(_LOCAL_PROFILE)
    if file == value or syntax.descending(file):
        return None
    return SeccompProfile(type="Localhost", localhost_profile=file)
