"""Admission of pods: parse, drop what belongs to a cluster, default, validate, and refuse what is not supported."""

import json
from typing import Any, NamedTuple, TypeVar

from syncpod.pod.containers import Container, EphemeralContainer
from syncpod.pod.defaults import with_container_defaults, with_defaults
from syncpod.pod.kinds import Pod
from syncpod.pod.meta import CLUSTERS_METADATA, SERVERS_METADATA, ObjectMeta
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
"""What admission drops, with a warning: the reason by path."""

LARGEST_POD = 512 * 1024
"""Bytes as JSON. A workflow's state is one payload, which a server limits to 2 MiB. It may hold the pod, the pod that
replaces it, and the pod's history. (An API server's limit is 1.5 MiB.)"""

_MIRROR = "kubernetes.io/config.mirror"
_STATIC = (HASH_ANNOTATION, _MIRROR, "kubernetes.io/config.seen", "kubernetes.io/config.source")
"""What a kubelet writes into the mirror of its static pod (pkg/kubelet/types/pod_update.go, v1.36)."""

_TOKEN_VOLUME = "kube-api-access-"  # the name of a volume, not a secret

_Container = TypeVar("_Container", bound=Container)


class Admission(NamedTuple):
    """An admitted pod, with its defaults, and warnings for its author."""

    pod: Pod
    warnings: tuple[Problem, ...]


def admit(document: Any) -> Admission:
    """Admit a Pod, or the document of one, for a first or repeated apply. Idempotent.

    The output of `kubectl get pod -o yaml` is accepted too: what an API server filled in is dropped, with a warning.
    Raises PodInvalid with everything that is wrong, unknown or not supported.
    """
    pod = document if isinstance(document, Pod) else parse_pod(document)
    pod, warnings = without_cluster(pod)
    pod = with_defaults(pod)
    problems = [*validate_pod(pod), *check_supported(pod)]
    if pod.spec.ephemeral_containers:
        problems.append(
            Problem("spec.ephemeralContainers", "must not be set in a manifest; they are added to a running pod")
        )
    problems = problems or [*check_size(pod)]
    if problems:
        raise PodInvalid(problems)
    return Admission(pod, (*warnings, *check_without_effect(pod)))


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
    """Admit a pod as `admit` does, for callers that have nobody to warn."""
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
    """Return the pod without what a cluster put into it, and a warning for each thing that was dropped."""
    from_server = _is_from_server(pod)
    metadata, warnings = _own_metadata(pod.metadata, from_server=from_server)
    if pod.status != PodStatus():
        warnings.append(Problem("status", "dropped: it is what another node saw"))
    spec = pod.spec
    if from_server and spec.node_name:
        chosen = "its manifest lies on" if _MIRROR in pod.metadata.annotations else "a scheduler chose"
        warnings.append(Problem("spec.nodeName", f"dropped: {chosen} {spec.node_name}"))
        spec = spec.model_copy(update={"node_name": ""})
    if tokens := {volume.name for volume in spec.volumes if _is_token_volume(volume)}:
        names = ", ".join(sorted(tokens))
        warnings.append(Problem("spec.volumes", f"dropped {names}: no API server issues tokens here"))
        spec = _without_volumes(spec, tokens)
    if not warnings:
        return pod, []
    return pod.model_copy(update={"metadata": metadata, "spec": spec, "status": PodStatus()}), warnings


def _is_from_server(pod: Pod) -> bool:
    """Say whether an API server has written into the pod."""
    metadata = pod.metadata
    written = (metadata.resource_version, metadata.creation_timestamp, metadata.managed_fields)
    return any(written) or pod.status != PodStatus()


def _own_metadata(metadata: ObjectMeta, *, from_server: bool) -> tuple[ObjectMeta, list[Problem]]:
    """Return the metadata without a cluster's, and warnings. A UID stays, unless an API server has chosen it."""
    servers = [name for name in SERVERS_METADATA if getattr(metadata, name) and (name != "uid" or from_server)]
    clusters = [name for name in CLUSTERS_METADATA if getattr(metadata, name)]
    warnings = []
    if servers:
        names = ", ".join(map(wire_name, servers))
        warnings.append(Problem("metadata", f"dropped what an API server filled in: {names}"))
    annotations = dict(metadata.annotations)
    for key in _STATIC if from_server and _MIRROR in annotations else ():
        if annotations.pop(key, None) is not None:
            warnings.append(Problem(f"metadata.annotations[{key}]", "dropped: another node's kubelet wrote it"))
    warnings += [
        Problem(f"metadata.{wire_name(name)}", "dropped: it speaks to controllers of a cluster") for name in clusters
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
