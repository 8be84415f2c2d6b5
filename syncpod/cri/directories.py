"""What a pod needs on disk before its sandbox and before each container: planned as values, made in one small place.

Making and removing block (a hostPath may lie on a network file system that hangs), so they belong on a thread. All of
it is safe to repeat.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from syncpod.cri.hosts_file import hosts_file
from syncpod.cri.mounts import manages_etc_hosts
from syncpod.cri.node import NodeContext
from syncpod.cri.paths import (
    container_log_file,
    empty_dir_directory,
    etc_hosts_file,
    log_directory_of,
    pod_directory,
    pod_log_directory,
    pods_directory,
)
from syncpod.cri.tree_removal import remove_tree
from syncpod.pod import Container, Pod, Volume
from syncpod.pod.enums import HostPathType

_PRIVATE = 0o700
_OURS = 0o750
_LOGS = 0o755
_EMPTY_DIR = 0o777
_SHARED_GROUP = stat.S_ISGID
_HOSTS_FILE = 0o644

_CHECKS = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


class MountFailure(Exception):
    """A volume cannot be had: reason FailedMount, and the text is the event's message."""


@dataclass(frozen=True)
class Directory:
    """A directory of ours: where, with which permissions, and whose group it takes (None: the process')."""

    path: Path
    mode: int
    group: int | None = None
    shared: bool = False
    """Others use it too, a kubelet perhaps: once it is there, its permissions are not ours to change."""


@dataclass(frozen=True)
class HostPath:
    """A place of the node that a volume shows, and what must be there."""

    volume: str
    path: Path
    type: HostPathType


@dataclass(frozen=True)
class PodPlan:
    """What must be there before a pod's sandbox: directories in the order of making, then places of the node."""

    directories: tuple[Directory, ...]
    host_paths: tuple[HostPath, ...]


@dataclass(frozen=True)
class ContainerPlan:
    """What must be there before a container is created; ``pod`` and ``pod_ips`` make its /etc/hosts, if it gets one."""

    directories: tuple[Directory, ...]
    etc_hosts: Path | None
    pod: Pod
    pod_ips: tuple[str, ...]


def plan_pod(pod: Pod, node: NodeContext) -> PodPlan:
    """Return what the pod needs before its sandbox.

    Raises :class:`MountFailure` for a kind of volume this version has not, and
    :class:`~syncpod.cri.paths.UnsafeName` for names that would lead out of their directories.
    """
    uid = pod.metadata.uid
    own = pod_directory(node, uid)
    security = pod.spec.security_context
    group = security.fs_group if security is not None else None
    empty_dirs: list[Directory] = []
    host_paths: list[HostPath] = []
    for volume in pod.spec.volumes:
        if volume.host_path is not None:
            host_paths.append(HostPath(volume.name, Path(volume.host_path.path), volume.host_path.type or ""))
        elif volume.empty_dir is not None and not volume.empty_dir.medium:
            mode = _EMPTY_DIR if group is None else _EMPTY_DIR | _SHARED_GROUP
            empty_dirs.append(Directory(empty_dir_directory(node, uid, volume.name), mode, group))
        else:
            raise MountFailure(_failed(volume.name, f"{_kind(volume)} is not supported by this version"))
    return PodPlan(
        directories=(
            Directory(node.state_dir, _PRIVATE),
            Directory(pods_directory(node), _PRIVATE),
            Directory(own, _OURS),
            Directory(own / "containers", _OURS),
            Directory(own / "volumes", _OURS),
            *((Directory(empty_dirs[0].path.parent, _OURS),) if empty_dirs else ()),
            *empty_dirs,
            Directory(node.log_dir, _LOGS, shared=True),
            Directory(log_directory_of(pod, node), _LOGS),
        ),
        host_paths=tuple(host_paths),
    )


def prepare_pod(plan: PodPlan) -> None:
    """Make the pod's directories and look at its hostPaths, making those it says to. Blocks; safe to repeat.

    Raises :class:`MountFailure` if a hostPath is not what the pod says it is (hostpath/host_path.go, v1.36, checkType),
    and :class:`OSError` where the node's disk is at fault.
    """
    for directory in plan.directories:
        _make(directory)
    for place in plan.host_paths:
        _check_host_path(place)


def plan_container(pod: Pod, container: Container, node: NodeContext, pod_ips: tuple[str, ...]) -> ContainerPlan:
    """Return what a container needs before it is created. Raises :class:`~syncpod.cri.paths.UnsafeName`."""
    logs = log_directory_of(pod, node)
    return ContainerPlan(
        directories=(
            Directory(node.log_dir, _LOGS, shared=True),
            Directory(logs, _LOGS),
            Directory(logs / Path(container_log_file(container.name, 0)).parent, _LOGS),
        ),
        etc_hosts=etc_hosts_file(node, pod.metadata.uid) if manages_etc_hosts(pod, container, pod_ips) else None,
        pod=pod,
        pod_ips=pod_ips,
    )


def prepare_container(plan: ContainerPlan, *, hosts_of_node: Path = Path("/etc/hosts")) -> None:
    """Make the container's log directory and write the pod's /etc/hosts. Blocks; safe to repeat. Raises OSError."""
    for directory in plan.directories:
        _make(directory)
    if plan.etc_hosts is None:
        return
    of_node = hosts_of_node.read_text(errors="surrogateescape") if plan.pod.spec.host_network else ""
    text = hosts_file(plan.pod, plan.pod_ips, of_node).encode(errors="surrogateescape")
    # Written in place: containers that already run have this very file mounted.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(plan.etc_hosts, flags, _HOSTS_FILE), "wb") as file:
        os.fchmod(file.fileno(), _HOSTS_FILE)
        file.write(text)


def remove_pod_directories(node: NodeContext, *, namespace: str, name: str, uid: str) -> None:
    """Remove the pod's directory with its volumes, and its logs. Blocks; safe to repeat.

    Only for a pod without containers. hostPaths are not touched. Raises
    :class:`~syncpod.cri.tree_removal.StillMounted` while something is mounted in a volume, and OSError.
    """
    logs = pod_log_directory(node, namespace, name, uid)
    remove_tree(pod_directory(node, uid))
    remove_tree(logs)


def _make(directory: Directory) -> None:
    """Make one directory of ours, or find it made; what stands there must be a directory and no symlink."""
    path = directory.path
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=directory.mode)
    except FileExistsError:
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise NotADirectoryError(f"{path}: must be a directory, and is something else") from None
        if directory.shared:
            return
    _adjust(directory)


def _adjust(directory: Directory) -> None:
    """Give a directory its group and permissions, whatever the umask was or a dying predecessor left undone."""
    path = directory.path
    found = path.lstat()
    if directory.group is not None and found.st_gid != directory.group:
        os.chown(path, -1, directory.group, follow_symlinks=False)
    # A change of group takes the setgid bit away, so permissions come last.
    if stat.S_IMODE(path.lstat().st_mode) != directory.mode:
        path.chmod(directory.mode)


def _check_host_path(place: HostPath) -> None:
    if place.type == "":
        return
    try:
        mode = _mode_of(place.path)
        if mode is None and place.type == "DirectoryOrCreate":
            place.path.mkdir(mode=0o755, parents=True, exist_ok=True)
        elif mode is None and place.type == "FileOrCreate":
            os.close(os.open(place.path, os.O_CREAT | os.O_CLOEXEC, 0o644))
        mode = _mode_of(place.path)
    except OSError as error:
        raise MountFailure(_failed(place.volume, f"{error.strerror}: {place.path}")) from error
    is_right, wanted = _CHECKS[place.type]
    if mode is None or not is_right(mode):
        raise MountFailure(_failed(place.volume, f"hostPath type check failed: {place.path} is not {wanted}"))


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _failed(volume: str, why: str) -> str:
    return f'MountVolume.SetUp failed for volume "{volume}" : {why}'


def _kind(volume: Volume) -> str:
    if volume.empty_dir is not None:
        return f"emptyDir with medium {volume.empty_dir.medium}"
    return next(iter(volume.model_dump(by_alias=True, exclude_defaults=True, exclude={"name"})), "no source")
