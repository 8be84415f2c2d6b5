"""The paths of a pod's files.

Every name that becomes part of a path is checked here, since the runtime does not check names.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from syncpod.pod import Container, Pod, Volume
from syncpod.translation.context import NodeContext

PODS: Final = "pods"
"""The directory of all pods' directories, in a node's state directory."""
PLUGINS: Final = "plugins"
"""The directory, in a node's state directory, of storage drivers' sockets and staged volumes."""
PLUGINS_REGISTRY: Final = "plugins_registry"
"""The directory, in a node's state directory, in which storage drivers register."""
_NAME_LIMIT = 255
"""Maximum bytes of a file name."""
EMPTY_DIR = "kubernetes.io~empty-dir"
PROJECTED = "kubernetes.io~projected"
DOWNWARD_API = "kubernetes.io~downward-api"
CLAIM = "kubernetes.io~persistent-volume-claim"
CSI = "kubernetes.io~csi"
MOUNTED = (EMPTY_DIR, PROJECTED, DOWNWARD_API)
"""The volume plugins for which the node mounts file systems."""
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class UnsafeName(ValueError):
    """A name that would lead out of its directory, or that no file system accepts."""


def is_uid(uid: str) -> bool:
    """Return whether a pod's UID is safe as a directory's name."""
    return len(uid) <= _NAME_LIMIT and _is_plain(uid)


@lru_cache(maxsize=2_000)  # every relist checks every pod; a removed pod's UID stays cached, 0.2 KB
def _is_plain(uid: str) -> bool:
    return _UID.fullmatch(uid) is not None


def pods_directory(node: NodeContext) -> Path:
    """Return the directory that holds all pods' directories."""
    return node.state_dir / PODS


def pod_directory(node: NodeContext, uid: str) -> Path:
    """Return ``<state>/pods/<uid>``. Raises :class:`UnsafeName`."""
    if not is_uid(uid):
        raise UnsafeName(f"metadata.uid: {uid!r} is not a name for a directory; use letters, digits and dashes")
    return pods_directory(node) / safe_name(uid, "metadata.uid")


def memory_pod_directory(node: NodeContext, uid: str) -> Path:
    """Return ``<memory>/pods/<uid>``, for files of a pod that must not be on a disk. Raises :class:`UnsafeName`."""
    return node.memory_dir / "pods" / pod_directory(node, uid).name


def volume_directory(node: NodeContext, uid: str, volume: Volume) -> Path | None:
    """Return the path of a volume that is made for the pod: ``…/<uid>/volumes/kubernetes.io~<plugin>/<name>``.

    It is below the pod's directory, as in the kubelet. A Secret is below the pod's directory in memory, and so is an
    emptyDir in memory on a node that may not mount. None for other kinds. Raises :class:`UnsafeName`.
    """
    plugin = volume_plugin(volume)
    if plugin is None:
        return None
    base = (memory_pod_directory if _in_memory(volume, node) else pod_directory)(node, uid)
    return base / "volumes" / plugin / safe_name(volume.name, "spec.volumes[].name")


def claim_link(node: NodeContext, uid: str, volume: Volume) -> Path | None:
    """Return the path of the symlink to a claim's or a driver's volume; None for other kinds.

    Raises UnsafeName.

    The runtime follows the symlink. So the path to mount depends only on the pod, and removing the pod's directory
    touches nothing in the volume.
    """
    if volume.persistent_volume_claim is None and volume.ephemeral is None and volume.csi is None:
        return None
    return pod_directory(node, uid) / "volumes" / CLAIM / safe_name(volume.name, "spec.volumes[].name")


def csi_target(node: NodeContext, uid: str, volume: str) -> Path:
    """Return the path at which a storage driver publishes a PersistentVolume for a pod; the kubelet's is the same.

    Raises UnsafeName.
    """
    return pod_directory(node, uid) / "volumes" / CSI / safe_name(volume, "metadata.name of a volume") / "mount"


def csi_staging(node: NodeContext, driver: str, digest: str) -> Path:
    """Return the path at which a storage driver stages a volume; the kubelet's is the same. Raises UnsafeName."""
    place = node.state_dir / PLUGINS / CSI.replace("~", "/") / safe_name(driver, "spec.csi.driver")
    return place / digest / "globalmount"


def csi_device_target(node: NodeContext, uid: str, volume: str) -> Path:
    """Return the path at which a storage driver publishes a block volume for a pod; the kubelet's is the same.

    Raises UnsafeName.
    """
    return _csi_devices(node) / "publish" / safe_name(volume, "metadata.name of a volume") / safe_name(uid, "a UID")


def csi_device_staging(node: NodeContext, volume: str) -> Path:
    """Return the path at which a storage driver stages a block volume. Raises UnsafeName."""
    return _csi_devices(node) / "staging" / safe_name(volume, "metadata.name of a volume")


def _csi_devices(node: NodeContext) -> Path:
    return node.state_dir / PLUGINS / CSI.replace("~", "/") / "volumeDevices"


def volume_plugin(volume: Volume) -> str | None:
    """Return the kubelet's plugin, by its directory's name, for a volume that is made for the pod; None for others."""
    kinds = (
        (volume.empty_dir, EMPTY_DIR),
        (volume.config_map, "kubernetes.io~configmap"),
        (volume.secret, "kubernetes.io~secret"),
        (volume.projected, PROJECTED),
        (volume.downward_api, DOWNWARD_API),
    )
    return next((plugin for source, plugin in kinds if source is not None), None)


def empty_dir_ready_file(node: NodeContext, uid: str, volume: str) -> Path:
    """Return the file that marks an emptyDir as complete, at the kubelet's path. Raises UnsafeName."""
    name = safe_name(volume, "spec.volumes[].name")
    return pod_directory(node, uid) / "plugins" / EMPTY_DIR / name / "ready"


def _in_memory(volume: Volume, node: NodeContext) -> bool:
    if volume.secret is not None:
        return True
    if volume.projected is not None:
        parts = volume.projected.sources
        return any(each.secret or each.service_account_token or each.pod_certificate for each in parts)
    return volume.empty_dir is not None and volume.empty_dir.medium == "Memory" and not node.may_mount


def etc_hosts_file(node: NodeContext, uid: str) -> Path:
    """Return the file that the pod's containers see as /etc/hosts. Raises :class:`UnsafeName`."""
    return pod_directory(node, uid) / "etc-hosts"


def pod_log_directory(node: NodeContext, namespace: str, name: str, uid: str) -> Path:
    """Return ``<logs>/<namespace>_<name>_<uid>``.

    Raises :class:`UnsafeName` (kuberuntime/helpers.go, v1.36, BuildPodLogsDirectory).
    """
    pod_directory(node, uid)
    for part, path in ((namespace, "metadata.namespace"), (name, "metadata.name")):
        safe_name(part, path)
    return node.log_dir / safe_name(f"{namespace}_{name}_{uid}", "metadata.name, in the name of the log directory")


def log_directory_of(pod: Pod, node: NodeContext) -> Path:
    """Return the log directory of a pod. Raises :class:`UnsafeName`."""
    return pod_log_directory(node, pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def container_log_file(container: str, restart_count: int) -> str:
    """Return a container's log relative to its pod's log directory: ``<container>/<restart>.log``.

    Raises :class:`UnsafeName` for a container name that would leave that directory (helpers.go, v1.36,
    buildContainerLogsPath).
    """
    return f"{safe_name(container, 'spec.containers[].name')}/{restart_count}.log"


def message_file(node: NodeContext, uid: str, container: Container, restart_count: int) -> Path | None:
    """Return the file that an instance sees at its terminationMessagePath; None if it has no such path.

    Raises :class:`UnsafeName` (kuberuntime_container.go, v1.36, makeMounts). Difference: the file is named after the
    restart count, not at random, so that a repeated start finds it again.
    """
    if not container.termination_message_path:
        return None
    name = safe_name(container.name, "spec.containers[].name")
    return pod_directory(node, uid) / "containers" / name / f"{restart_count:08x}"


def safe_name(name: str, path: str) -> str:
    """Return a name unchanged if it is safe as one component of a path.

    Raises :class:`UnsafeName`, which names the field.
    """
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise UnsafeName(f"{path}: {name!r} is not a name for a file or directory")
    if len(name.encode()) > _NAME_LIMIT:
        raise UnsafeName(f"{path}: {name!r} has {len(name.encode())} bytes, and a directory takes {_NAME_LIMIT}")
    return name
