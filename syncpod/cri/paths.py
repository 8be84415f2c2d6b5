"""Where a pod's things lie on disk. Every name that becomes part of a path is checked here: the runtime checks none."""

import re
from pathlib import Path

from syncpod.cri.node import NodeContext
from syncpod.pod import Pod

_NAME_LIMIT = 255
"""Bytes of one name in a directory."""
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class UnsafeName(ValueError):
    """A name that would lead out of its directory, or that no file system takes."""


def pods_directory(node: NodeContext) -> Path:
    """Return the directory that holds all pods' directories."""
    return node.state_dir / "pods"


def pod_directory(node: NodeContext, uid: str) -> Path:
    """Return ``<state>/pods/<uid>``. Raises :class:`UnsafeName`."""
    if not _UID.fullmatch(uid):
        raise UnsafeName(f"metadata.uid: {uid!r} is no name for a directory; use letters, digits and dashes")
    return pods_directory(node) / _component(uid, "metadata.uid")


def empty_dir_directory(node: NodeContext, uid: str, volume: str) -> Path:
    """Return the directory of an emptyDir volume, below the pod's as the kubelet has it. Raises :class:`UnsafeName`."""
    name = _component(volume, "spec.volumes[].name")
    return pod_directory(node, uid) / "volumes" / "kubernetes.io~empty-dir" / name


def etc_hosts_file(node: NodeContext, uid: str) -> Path:
    """Return the file that the pod's containers see as /etc/hosts. Raises :class:`UnsafeName`."""
    return pod_directory(node, uid) / "etc-hosts"


def pod_log_directory(node: NodeContext, namespace: str, name: str, uid: str) -> Path:
    """Return ``<logs>/<namespace>_<name>_<uid>``.

    Raises :class:`UnsafeName` (kuberuntime/helpers.go, v1.36, BuildPodLogsDirectory).
    """
    pod_directory(node, uid)
    for part, path in ((namespace, "metadata.namespace"), (name, "metadata.name")):
        _component(part, path)
    return node.log_dir / _component(f"{namespace}_{name}_{uid}", "metadata.name, in the name of the log directory")


def log_directory_of(pod: Pod, node: NodeContext) -> Path:
    """Return the log directory of a pod. Raises :class:`UnsafeName`."""
    return pod_log_directory(node, pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def container_log_file(container: str, restart_count: int) -> str:
    """Return a container's log relative to its pod's log directory: ``<container>/<restart>.log``.

    Raises :class:`UnsafeName` for a container name that would leave that directory (helpers.go, v1.36,
    buildContainerLogsPath).
    """
    return f"{_component(container, 'spec.containers[].name')}/{restart_count}.log"


def _component(name: str, path: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise UnsafeName(f"{path}: {name!r} is no name for a file or directory")
    if len(name.encode()) > _NAME_LIMIT:
        raise UnsafeName(f"{path}: {name!r} has {len(name.encode())} bytes, and a directory takes {_NAME_LIMIT}")
    return name
