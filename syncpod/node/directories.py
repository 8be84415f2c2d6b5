"""The directories and files that a pod needs before its sandbox, and each container before its creation.

They are first planned as values, and then made. The functions that make and remove them block, even for ever if a
hostPath is on a hanging file system, so call these in a thread. Everything is safe to repeat.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from syncpod.kernel.beneath import open_directory, open_without_links
from syncpod.kernel.mounting import is_mount
from syncpod.kernel.tree_removal import StillMounted, remove_tree
from syncpod.node.cgroups import remove_pod_cgroup
from syncpod.node.log_links import remove_pod_links
from syncpod.node.pod_records import RECORD_NAME
from syncpod.node.pod_volumes import PodVolume, alone, make_volumes, pod_volumes
from syncpod.node.termination_message import make_message_file
from syncpod.objects import ObjectStore
from syncpod.pod import Container, Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.hostname import hosts_file
from syncpod.translation.mounts import manages_etc_hosts
from syncpod.translation.paths import (
    CSI,
    MOUNTED,
    container_log_file,
    etc_hosts_file,
    log_directory_of,
    memory_pod_directory,
    message_file,
    pod_directory,
    pod_log_directory,
    pods_directory,
)
from syncpod.translation.sub_paths import sub_paths_directory
from syncpod.volumes.empty_dir import EmptyDir, take_away_mounts
from syncpod.volumes.subpath import clear_sub_paths
from syncpod.volumes.visibility import stop_sharing

_PRIVATE = 0o700
_OURS = 0o750
_LOGS = 0o755
_HOSTS_FILE = 0o644


@dataclass(frozen=True)
class Directory:
    """A directory that the node makes, and its permissions."""

    path: Path
    mode: int
    shared: bool = False
    """True if others, such as a kubelet, use the directory too: if it exists, its permissions are not changed."""
    trusted: Path | None = None
    """An ancestor that pods cannot replace, although they may write beneath it; None = the parent."""


@dataclass(frozen=True)
class PodPlan:
    """The needs of a pod before its sandbox: its directories, in the order in which they are made, and its volumes."""

    directories: tuple[Directory, ...]
    own: Path
    """The pod's directory."""
    volumes: tuple[PodVolume, ...]


@dataclass(frozen=True)
class ContainerPlan:
    """The needs of a container before it is created. The last three fields are for its /etc/hosts, if it has one."""

    directories: tuple[Directory, ...]
    etc_hosts: Path | None
    message_file: Path | None
    """The instance's termination message file, if it has one."""
    pod: Pod
    pod_ips: tuple[str, ...]
    cluster_domain: str


def own_directories(uid: str, node: NodeContext) -> tuple[Directory, ...]:
    """Return the directories that every pod has, its own last. Raises UnsafeName."""
    own = pod_directory(node, uid)
    return (Directory(node.state_dir, _PRIVATE), Directory(pods_directory(node), _PRIVATE), Directory(own, _OURS))


def plan_pod(pod: Pod, node: NodeContext) -> PodPlan:
    """Return the directories and volumes that the pod needs before its sandbox.

    Raises :class:`~syncpod.node.pod_volumes.MountFailure` for a kind of volume that this node cannot provide, and
    :class:`~syncpod.translation.paths.UnsafeName` for names that would lead out of their directories.
    """
    uid = pod.metadata.uid
    own = pod_directory(node, uid)
    volumes = pod_volumes(pod, node)
    return PodPlan(
        directories=(
            *own_directories(uid, node),
            Directory(own / "containers", _OURS),
            Directory(own / "volumes", _OURS),
            *_directories_of(volumes, node),
            Directory(node.log_dir, _LOGS, shared=True),
            Directory(log_directory_of(pod, node), _LOGS, trusted=node.log_dir),
        ),
        own=own,
        volumes=volumes,
    )


def prepare_pod(plan: PodPlan, store: ObjectStore) -> None:
    """Make the pod's directories and its volumes, from the existing ConfigMaps and Secrets. Blocks; safe to repeat.

    Raises :class:`~syncpod.node.pod_volumes.MountFailure` with every volume that cannot be made, and :class:`OSError`
    if the node's disk is at fault.
    """
    make_directories(plan.directories)
    make_volumes(plan.own, plan.volumes, store)


def make_directories(directories: tuple[Directory, ...]) -> None:
    """Make those of these directories that are missing, in this order. Blocks; safe to repeat. Raises OSError."""
    for directory in directories:
        _make(directory)


def plan_container(
    pod: Pod, container: Container, node: NodeContext, pod_ips: tuple[str, ...], *, restart_count: int = 0
) -> ContainerPlan:
    """Return the directories and files that a container needs before it is created.

    Raises :class:`~syncpod.translation.paths.UnsafeName`.
    """
    logs = log_directory_of(pod, node)
    return ContainerPlan(
        directories=(
            Directory(node.log_dir, _LOGS, shared=True),
            Directory(logs, _LOGS, trusted=node.log_dir),
            Directory(logs / Path(container_log_file(container.name, 0)).parent, _LOGS, trusted=node.log_dir),
        ),
        etc_hosts=etc_hosts_file(node, pod.metadata.uid) if manages_etc_hosts(pod, container, pod_ips) else None,
        message_file=message_file(node, pod.metadata.uid, container, restart_count),
        pod=pod,
        pod_ips=pod_ips,
        cluster_domain=node.cluster_dns.domain,
    )


def prepare_container(plan: ContainerPlan, *, hosts_of_node: Path = Path("/etc/hosts")) -> None:
    """Make the container's log directory and termination message, and write the pod's /etc/hosts.

    Blocks; safe to repeat. Raises OSError.
    """
    make_directories(plan.directories)
    if plan.message_file is not None:
        make_message_file(plan.message_file)
    if plan.etc_hosts is None:
        return
    of_node = hosts_of_node.read_text(errors="surrogateescape") if plan.pod.spec.host_network else ""
    text = hosts_file(plan.pod, plan.pod_ips, of_node, plan.cluster_domain).encode(errors="surrogateescape")
    # The file is written in place, because running containers have this very file mounted.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(plan.etc_hosts, flags, _HOSTS_FILE), "wb") as file:
        os.fchmod(file.fileno(), _HOSTS_FILE)
        file.write(text)


def remove_pod_files(node: NodeContext, *, namespace: str, name: str, uid: str) -> None:
    """Remove the pod's cgroup, its directory with its volumes, its directory in memory, its logs and the links to them.

    Blocks; safe to repeat.

    Use it only for a pod without sandboxes. The pod's mounts are unmounted first; hostPaths are not touched. The pod's
    record is removed last: after a crash halfway, the record shows which pod the remaining files belong to. Raises
    :class:`~syncpod.kernel.cgroupfs.CgroupBusy` before anything is removed;
    :class:`~syncpod.kernel.tree_removal.StillMounted` while something else is mounted in a volume; and OSError.
    """
    own, logs = pod_directory(node, uid), pod_log_directory(node, namespace, name, uid)
    in_memory = memory_pod_directory(node, uid)
    remove_pod_cgroup(node, uid)
    remove_pod_links(logs, namespace, name)
    remove_tree(logs)
    try:
        with alone(own):
            _remove_volumes(node, uid)
            for entry in own.iterdir():
                if entry.name != RECORD_NAME:
                    remove_tree(entry)
            remove_tree(own)
    except (FileNotFoundError, NotADirectoryError):
        remove_tree(in_memory)
        remove_tree(own)


def remove_pod_volumes(node: NodeContext, uid: str) -> None:
    """Remove the pod's volumes, on disk and in memory, and nothing else. Blocks; safe to repeat.

    Use it only for a pod without containers, which will never run again. Raises the errors of `remove_pod_files`.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), alone(pod_directory(node, uid)):
        _remove_volumes(node, uid)


def _remove_volumes(node: NodeContext, uid: str) -> None:
    """Unmount and remove a pod's volumes and the files that mark them as complete. The caller holds the pod's lock."""
    own = pod_directory(node, uid)
    _require_unpublished(own / "volumes" / CSI)
    clear_sub_paths(sub_paths_directory(node, uid))
    for plugin in MOUNTED:
        take_away_mounts(own / "volumes" / plugin)
    for directory in (own, memory_pod_directory(node, uid)):
        stop_sharing(directory.resolve() / "volumes")
    remove_tree(memory_pod_directory(node, uid))
    remove_tree(own / "plugins")
    remove_tree(own / "volumes")


def _require_unpublished(directory: Path) -> None:
    """Raise StillMounted as long as storage drivers have mounts in a volume: only the drivers may unmount them.

    Call it before anything is removed: a removal may move directories, and a driver cannot find a mount that has moved.
    """
    for place in directory.glob("*/mount"):
        if is_mount(place):
            raise StillMounted(f"a storage driver has not unmounted {place} yet")


def _directories_of(volumes: tuple[PodVolume, ...], node: NodeContext) -> Iterator[Directory]:
    """Yield the directories above the volumes, each once: the pod's directory in memory, and those of the plugins."""
    listed: set[Path] = set()
    for volume in volumes:
        if volume.path is None:
            continue
        plugin, above = volume.path.parent, [_OURS]
        if plugin.is_relative_to(node.memory_dir):
            # The memory directory, its `pods`, the pod's directory, that pod's `volumes`, and the plugin's directory.
            above = [_PRIVATE, _PRIVATE, _OURS, _OURS, _OURS]
        yield from _nested(plugin, above, listed)
        if isinstance(volume.source, EmptyDir):
            yield from _nested(volume.source.ready.parent, [_OURS] * 3, listed)


def _nested(innermost: Path, modes: list[int], listed: set[Path]) -> Iterator[Directory]:
    """Yield a directory and as many parents as there are modes, outermost first; skip those in `listed`."""
    paths = (innermost, *innermost.parents)[: len(modes)]
    for path, mode in zip(reversed(paths), modes, strict=True):
        if path not in listed:
            listed.add(path)
            yield Directory(path, mode)


def _make(directory: Directory) -> None:
    """Make one directory of ours, unless it exists. Anything else in its place, even a symlink, is an error.

    No symlink is followed beneath the trusted part, and permissions are set on the opened directory, not on its path:
    at any moment, a pod that mounts the node's log directory may replace a name in it by a link to one of root's
    directories.
    """
    if directory.trusted is None and _is_made(directory):
        return
    path, trusted = directory.path, directory.trusted or directory.path.parent
    if not trusted.exists():
        trusted.mkdir(parents=True, exist_ok=True)
    root = open_directory(trusted)
    try:
        above = open_without_links(root, str(path.parent.relative_to(trusted)), os.O_PATH | os.O_DIRECTORY)
        try:
            _make_in(above, directory)
        finally:
            os.close(above)
    except NotADirectoryError:
        raise NotADirectoryError(f"{path}: must be a directory, and is something else") from None
    finally:
        os.close(root)


def _is_made(directory: Directory) -> bool:
    """Try to make a directory by two system calls; return whether it now exists with the right permissions.

    If it does not, the caller makes it, or finds the error, by a dozen safer calls. This saves time: a container's
    start needs a dozen directories. Only for a directory in a trusted one: neither call follows a symlink there, and
    nobody else can replace the directory.
    """
    existed = False
    try:
        try:
            os.mkdir(directory.path, directory.mode)  # noqa: PTH102  # see above
        except FileExistsError:
            existed = True
        found = os.lstat(directory.path).st_mode
    except OSError:
        return False
    is_right = stat.S_IMODE(found) == directory.mode or (existed and directory.shared)
    return stat.S_ISDIR(found) and is_right


def _make_in(above: int, directory: Directory) -> None:
    name = directory.path.name
    try:
        os.mkdir(name, directory.mode, dir_fd=above)
        existed = False
    except FileExistsError:
        existed = True
    opened = open_without_links(above, name, os.O_PATH | os.O_DIRECTORY)
    try:
        if existed and directory.shared:
            return
        # Override the umask, and correct the permissions that a crash left unset.
        if stat.S_IMODE(os.fstat(opened).st_mode) != directory.mode:
            Path(f"/proc/self/fd/{opened}").chmod(directory.mode)
    finally:
        os.close(opened)
