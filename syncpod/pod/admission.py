"""Admission of pods: parse, drop a cluster's fields, default, validate, and refuse unsupported fields."""

import copy
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from syncpod.pod.containers import Container, EphemeralContainer
from syncpod.pod.defaults import with_container_defaults, with_defaults
from syncpod.pod.kinds import Pod
from syncpod.pod.meta import CLUSTERS_METADATA, SERVERS_METADATA, ObjectMeta
from syncpod.pod.origin import SOURCE_ANNOTATION, is_of_cluster
from syncpod.pod.parse import parse_ephemeral_container, parse_pod
from syncpod.pod.problems import PodInvalid, Problem
from syncpod.pod.spec import PodSpec
from syncpod.pod.static import HASH_ANNOTATION
from syncpod.pod.status import PodStatus
from syncpod.pod.support import check_supported, check_without_effect
from syncpod.pod.validation.pod import validate_ephemeral_container, validate_pod
from syncpod.pod.volumes import Volume
from syncpod.pod.wire import to_wire, wire_name

DROPPED = {
    **{f"metadata.{wire_name(name)}": "an API server writes it" for name in SERVERS_METADATA if name != "uid"},
    **{f"metadata.{wire_name(name)}": "controllers of a cluster act on it" for name in CLUSTERS_METADATA},
}
"""The fields that admission drops with a warning: the reason by path."""

LARGEST_POD = 512 * 1024
"""The largest pod, in bytes as JSON. A workflow's state is one payload, which a server limits to 2 MiB. That state may
hold the pod, the pod that replaces it, and the pod's history. (An API server's limit is 1.5 MiB.)"""

_MIRROR = "kubernetes.io/config.mirror"
_STATIC = (HASH_ANNOTATION, _MIRROR, "kubernetes.io/config.seen", SOURCE_ANNOTATION)
"""The annotations that a kubelet sets on the mirror of its static pod (pkg/kubelet/types/pod_update.go, v1.36)."""

_OS: Final = "linux"
_OS_LABEL: Final = "kubernetes.io/os"

_TOKEN_VOLUME = "kube-api-access-"  # the name of a volume, not a secret

_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
"""A step of a path: a field, or an index or a key in brackets."""

_Container = TypeVar("_Container", bound=Container)


class Admission(NamedTuple):
    """An admitted pod, with its defaults, and warnings for its author."""

    pod: Pod
    warnings: tuple[Problem, ...]


def admit(document: Any) -> Admission:
    """Admit a Pod, or the document of one, for a first or repeated apply. Idempotent.

    The output of `kubectl get pod -o yaml` is accepted too: fields that an API server filled in are dropped, with a
    warning. Raises PodInvalid with everything that is wrong, unknown or not supported.
    """
    written, warnings = without_cluster(document if isinstance(document, Pod) else parse_pod(document))
    pod = with_defaults(written)
    problems = _problems(written, pod) or [*check_size(pod)]
    if problems:
        raise PodInvalid(problems)
    return Admission(pod, (*warnings, *check_without_effect(pod)))


def problems_beside(document: Any, unread: Sequence[Problem]) -> list[Problem]:
    """Return the problems of a Pod's document other than `unread`, the problems of fields that cannot be read.

    The unreadable fields are removed first, so no problem that depends on one of them is reported. Returns [] if the
    rest cannot be read either.
    """
    rest = copy.deepcopy(document)
    for problem in unread:
        if not _leave_out(rest, problem.path):
            return []
    try:
        written, _ = without_cluster(parse_pod(rest))
    except PodInvalid:
        return []
    paths = [problem.path for problem in unread]
    return [each for each in _problems(written, with_defaults(written)) if not _is_within(each.path, paths)]


def _leave_out(document: Any, path: str) -> bool:
    """Remove a field of a document; return whether it was removed. An element of a list is never removed."""
    *steps, last = _STEP.findall(path) or [("", "")]
    try:
        for name, key in steps:
            document = document[name or (int(key) if isinstance(document, list) else key)]
        del document[last[0] or last[1]]
    except (LookupError, TypeError, ValueError):
        return False
    return True


def _is_within(path: str, others: Sequence[str]) -> bool:
    return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in others)


def _problems(written: Pod, pod: Pod) -> list[Problem]:
    """Return the wrong, unknown and unsupported fields of `pod`, which is `written` with its defaults."""
    problems = _of_what_is_written([*validate_pod(pod), *check_supported(pod)], written, pod)
    if pod.spec.ephemeral_containers:
        text = "must not be set in a manifest; they are added to a running pod"
        problems.append(Problem("spec.ephemeralContainers", text))
    return problems


def _of_what_is_written(problems: list[Problem], written: Pod, defaulted: Pod) -> list[Problem]:
    """Return the problems; a problem of a default is moved to the author's field from which the default was taken.

    The default of a request is the limit. With hostNetwork, the default of a host port is the container's port. A
    problem that the author's field has too is reported once.
    """
    if not problems:
        return []
    theirs, ours = to_wire(written), to_wire(defaulted)
    messages = {one.message for one in problems if _has(theirs, one.path)}
    return [
        each
        for one in problems
        if one.message not in messages or _has(theirs, one.path) or not _has(ours, one.path)
        for each in (one if _has(theirs, one.path) else _where_it_is_written(one, theirs),)
    ]


_FILLED_IN: Final = (
    (re.compile(r"\.hostPort$"), ".containerPort", "it is a port of the node too, since hostNetwork is true"),
    (re.compile(r"\.resources\.requests\b"), ".resources.limits", "it is the request too, since none is set"),
)
"""Fields whose default is another field's value: a pattern in their paths, its replacement in the other field's path,
and why the other field supplies the default."""


def _where_it_is_written(problem: Problem, written: Any) -> Problem:
    """Return the problem of a default, moved to the field that the default was taken from, if there is one."""
    for field, other, why in _FILLED_IN:
        path, count = field.subn(other, problem.path)
        if count and _has(written, path):
            return Problem(path, f"{problem.message}: {why}")
    return problem


def _has(document: Any, path: str) -> bool:
    """Say whether a document has a value at a path such as `spec.containers[0].resources.limits[example.com/gpu]`."""
    for name, key in _STEP.findall(path):
        step = name or (int(key) if isinstance(document, list) and key.isdecimal() else key)
        try:
            document = document[step]
        except (LookupError, TypeError):
            return False
    return True


def check_size(pod: Pod) -> tuple[Problem, ...]:
    """Return a problem if the pod is too large for its workflow's state."""
    size = len(json.dumps(to_wire(pod), separators=(",", ":"), ensure_ascii=False).encode())
    if size <= LARGEST_POD:
        return ()
    return (Problem("pod", f"must be no more than {LARGEST_POD} bytes as JSON, with its defaults; it is {size}"),)


def readmit(document: Any) -> Admission:
    """Admit a pod again that was admitted before, perhaps by an earlier version with other rules.

    Unknown fields are ignored, and values that are no longer accepted stay as they are. Raises PodInvalid if the
    document cannot be read as a Pod at all.
    """
    pod = document if isinstance(document, Pod) else parse_pod(document, strict=False)
    pod, warnings = without_cluster(pod)
    pod = with_defaults(pod)
    return Admission(pod, (*warnings, *check_without_effect(pod)))


def admit_pod(document: Any) -> Pod:
    """Admit a pod as `admit` does, without its warnings."""
    return admit(document).pod


def admit_ephemeral_container(pod: Pod, document: Any) -> EphemeralContainer:
    """Admit an ephemeral container, or the document of one, for a running pod.

    Raises PodInvalid; paths start at `ephemeralContainer`, or inside it if the document does not parse.
    """
    given = document if isinstance(document, EphemeralContainer) else parse_ephemeral_container(document)
    container = with_container_defaults(given, host_network=False)
    problems = list(validate_ephemeral_container(pod, container))
    alone = Pod.model_construct(spec=pod.spec.model_copy(update={"ephemeral_containers": (container,)}))
    here = "spec.ephemeralContainers[0]"
    problems += [
        Problem(problem.path.replace(here, "ephemeralContainer"), problem.message)
        for problem in check_supported(alone)
        if problem.path.startswith(here)
    ]
    if problems:
        raise PodInvalid(problems)
    return container


def without_cluster(pod: Pod) -> tuple[Pod, list[Problem]]:
    """Return the pod without the fields that a cluster wrote, and a warning for each that was dropped."""
    has_run = _has_run(pod)
    metadata, warnings = _own_metadata(pod.metadata, has_run=has_run)
    spec = pod.spec
    if _is_from_server(pod.metadata):
        warnings += _of_a_cluster(pod)
    elif has_run:
        warnings = [_filled_in(pod), *warnings]
    if has_run and spec.node_name:
        spec = spec.model_copy(update={"node_name": ""})
    tokens = {volume.name for volume in spec.volumes if _is_token_volume(volume)}
    if tokens and not is_of_cluster(pod.metadata):
        names = ", ".join(sorted(tokens))
        warnings.append(Problem("spec.volumes", f"dropped {names}: no API server issues tokens here"))
        spec = _without_volumes(spec, tokens)
    if not warnings:
        return pod, []
    return pod.model_copy(update={"metadata": metadata, "spec": spec, "status": PodStatus()}), warnings


def _has_run(pod: Pod) -> bool:
    """Say whether this is the output of a cluster, of podman or of one of our nodes for a pod that has run."""
    return bool(pod.metadata.creation_timestamp) or _is_from_server(pod.metadata) or pod.status != PodStatus()


def _is_from_server(metadata: ObjectMeta) -> bool:
    """Say whether an API server has written into the metadata. Our own nodes write no resourceVersion."""
    return bool(metadata.resource_version or metadata.managed_fields)


def _of_a_cluster(pod: Pod) -> Iterator[Problem]:
    """Yield a warning for each field outside the metadata that a cluster has written into a pod."""
    if pod.status != PodStatus():
        yield Problem("status", "dropped: another node has reported it")
    if node := pod.spec.node_name:
        chosen = "its manifest lies on" if _MIRROR in pod.metadata.annotations else "a scheduler chose"
        yield Problem("spec.nodeName", f"dropped: {chosen} {node}")


def _filled_in(pod: Pod) -> Problem:
    """Return the warning for the output of a pod that has run without a cluster."""
    names = [f"metadata.{wire_name(name)}" for name in _servers_fields(pod.metadata, has_run=True)]
    names += ["spec.nodeName"] if pod.spec.node_name else []
    names += ["status"] if pod.status != PodStatus() else []
    return Problem("", f"dropped what was filled in when it ran: {', '.join(names)}")


def _servers_fields(metadata: ObjectMeta, *, has_run: bool) -> list[str]:
    """Return the fields of the metadata that the author did not write. A UID is the author's if the pod has not run.

    A pod that a cluster has bound to this node keeps its generation.
    """
    own = () if has_run else ("uid", "generation") if is_of_cluster(metadata) else ("uid",)
    return [name for name in SERVERS_METADATA if getattr(metadata, name) and name not in own]


def _clusters_fields(metadata: ObjectMeta) -> tuple[str, ...]:
    """Return the fields that mean nothing without a cluster. A pod that a cluster has bound here keeps its owners."""
    bound = is_of_cluster(metadata)
    return tuple(name for name in CLUSTERS_METADATA if not (bound and name == "owner_references"))


def _own_metadata(metadata: ObjectMeta, *, has_run: bool) -> tuple[ObjectMeta, list[Problem]]:
    """Return the metadata without the fields of servers and clusters, and warnings about them.

    The server's fields of a pod that has run without a cluster have no warning here: `_filled_in` makes it.
    """
    servers = _servers_fields(metadata, has_run=has_run)
    clusters = [name for name in _clusters_fields(metadata) if getattr(metadata, name)]
    warnings = []
    if servers and (_is_from_server(metadata) or not has_run):
        names = ", ".join(map(wire_name, servers))
        warnings.append(Problem("metadata", f"dropped what an API server filled in: {names}"))
    annotations = dict(metadata.annotations)
    for key in _STATIC if has_run and _MIRROR in annotations else ():
        if annotations.pop(key, None) is not None:
            warnings.append(Problem(f"metadata.annotations[{key}]", "dropped: another node's kubelet wrote it"))
    warnings += [
        Problem(f"metadata.{wire_name(name)}", "dropped: only a cluster's controllers use it") for name in clusters
    ]
    blank = ObjectMeta()
    own = {name: getattr(blank, name) for name in (*servers, *clusters)}
    return metadata.model_copy(update={**own, "annotations": annotations}), warnings


def _is_token_volume(volume: Volume) -> bool:
    """Say whether this is the volume that the ServiceAccount admission controller adds to every pod."""
    return (
        volume.name.startswith(_TOKEN_VOLUME)
        and volume.projected is not None
        and any(source.service_account_token is not None for source in volume.projected.sources)
    )


def _without_volumes(spec: PodSpec, names: set[str]) -> PodSpec:
    """Return the spec without these volumes and their mounts."""
    return spec.model_copy(
        update={
            "volumes": tuple(volume for volume in spec.volumes if volume.name not in names),
            "containers": tuple(_without_mounts(one, names) for one in spec.containers),
            "init_containers": tuple(_without_mounts(one, names) for one in spec.init_containers),
        }
    )


def _without_mounts(container: _Container, volumes: set[str]) -> _Container:
    mounts = tuple(mount for mount in container.volume_mounts if mount.name not in volumes)
    return container.model_copy(update={"volume_mounts": mounts})


def os_refusal(pod: Pod) -> tuple[str, str] | None:
    """Return reason and message of the refusal of a pod made for another operating system; None if it is for Linux.

    Mirrors pkg/kubelet/lifecycle/predicate.go, v1.36, rejectPodAdmissionBasedOnOSSelector and
    rejectPodAdmissionBasedOnOSField.
    """
    if pod.metadata.labels.get(_OS_LABEL, _OS) != _OS:
        return (
            "PodOSSelectorNodeLabelDoesNotMatch",
            f"Failed to admit pod as the `{_OS_LABEL}` label doesn't match node label",
        )
    if pod.spec.os is not None and pod.spec.os.name != _OS:
        return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
    return None
