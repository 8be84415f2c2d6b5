"""An emptyDir: a directory that a pod's containers share, on disk, in memory or in huge pages."""

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncpod.kernel import mounting
from syncpod.pod import Container, Pod, parse_quantity
from syncpod.pod.amounts import HUGE_PAGES as RESOURCE
from syncpod.pod.amounts import pod_amounts
from syncpod.volumes.ownership import give_to_group

MEMORY: Final = "Memory"
HUGE_PAGES: Final = "HugePages"

_ON_DISK = 0o777
_IN_MEMORY = 0o1777
"""Mode of a memory file system's root. It is the kernel's default: with the sticky bit, only owners remove files."""


_OURS = ([("/", "tmpfs")], [("/", "hugetlbfs")])


class EmptyDirRefused(Exception):
    """The node cannot provide the emptyDir as the pod specifies it; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Tmpfs:
    """A file system in memory that holds at most `size_bytes`."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class Hugetlbfs:
    """A file system of huge pages of `page_bytes` each."""

    page_bytes: int


@dataclass(frozen=True, slots=True)
class EmptyDir:
    """An emptyDir to make: its directory, its mount, and its group."""

    path: Path
    ready: Path
    """A file that exists once the directory is complete; from then on the directory belongs to the containers."""
    mode: int
    mount: Tmpfs | Hugetlbfs | None = None
    group: int | None = None


def empty_dir(
    pod: Pod,
    medium: str,
    size_limit: str | None,
    *,
    path: Path,
    ready: Path,
    may_mount: bool,
    memory_bytes: int,
    page_sizes: Collection[int] = (),
) -> EmptyDir:
    """Return the emptyDir to make at `path`, given the node's memory and the sizes of its huge pages.

    An emptyDir in memory is a tmpfs of its own if the node may mount. If not, `path` must be on a memory file system,
    and the agent's disk limits enforce the size. Raises EmptyDirRefused (emptydir/empty_dir.go, v1.36, setupTmpfs and
    setupHugepages).
    """
    group = pod.spec.security_context.fs_group if pod.spec.security_context is not None else None
    if not medium:
        return EmptyDir(path, ready, _ON_DISK, None, group)
    if medium == MEMORY:
        size = memory_limit(pod, size_limit, memory_bytes)
        return EmptyDir(path, ready, _IN_MEMORY, Tmpfs(size) if may_mount else None, group)
    page = _page_bytes(pod, medium)
    if page not in page_sizes:
        raise EmptyDirRefused(f"medium {medium}: this machine has no huge pages of {page} bytes")
    if not may_mount:
        raise EmptyDirRefused(f"medium {medium}: the worker has no right to mount (CAP_SYS_ADMIN)")
    return EmptyDir(path, ready, _ON_DISK, Hugetlbfs(page), group)


def memory_limit(pod: Pod, size_limit: str | None, memory_bytes: int) -> int:
    """Return the maximum size of an emptyDir in memory, in bytes.

    It is the least of three: the emptyDir's own limit, the pod's memory limit (if the pod or every container has one),
    and the node's memory (calculateEmptyDirMemorySize).
    """
    sizes = [memory_bytes]
    own = parse_quantity(size_limit).value() if size_limit is not None else 0
    of_pod = _pod_memory(pod)
    return min([*sizes, *(size for size in (own, of_pod) if size > 0)])


def make_empty_dir(volume: EmptyDir) -> None:
    """Make an emptyDir unless it is complete already. Blocks; safe to repeat after a crash at any point.

    The containers may change the permissions of a complete directory, so these are never set again. The parents of the
    directory and of its `ready` file must exist. Raises OSError.
    """
    if volume.ready.exists() and _stands(volume):
        return
    volume.ready.unlink(missing_ok=True)
    try:
        volume.path.mkdir()
    except FileExistsError:
        if not stat.S_ISDIR(volume.path.lstat().st_mode):
            raise NotADirectoryError(f"{volume.path}: must be a directory, and is something else") from None
    match volume.mount:
        case Tmpfs(size_bytes):
            mounting.mount_tmpfs(volume.path, size_bytes, volume.mode)
        case Hugetlbfs(page_bytes):
            mounting.mount_hugetlbfs(volume.path, page_bytes, volume.mode)
    volume.path.chmod(volume.mode)
    if volume.group is not None:
        give_to_group(volume.path, volume.group, read_only=False)
    os.close(os.open(volume.ready, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def _stands(volume: EmptyDir) -> bool:
    """Return whether the directory and its mount still exist: a mount ends with the machine's boot."""
    if volume.mount is not None:
        return mounting.is_mount(volume.path)
    return volume.path.is_dir() and not volume.path.is_symlink()


def _page_bytes(pod: Pod, medium: str) -> int:
    """Return the page size of a medium; a container must request pages of this size (getPageSizeMountOption).

    Raises EmptyDirRefused.
    """
    named = medium.removeprefix(HUGE_PAGES).removeprefix("-")
    wanted = parse_quantity(named).value() if named else None
    asked = {
        parse_quantity(resource.removeprefix(RESOURCE)).value()
        for container in _containers(pod)
        for resource in container.resources.requests
        if resource.startswith(RESOURCE)
    }
    found = asked if wanted is None else asked & {wanted}
    if not found:
        raise EmptyDirRefused(f"medium {medium}: no container of the pod requests huge pages of that size")
    if len(found) > 1:
        raise EmptyDirRefused(f"medium: {medium} can't be used if container requests multiple huge page sizes")
    return found.pop()


def _pod_memory(pod: Pod) -> int:
    """Return the pod's memory limit in bytes; 0 if the pod has none of its own and at least one container has none."""
    whole = pod.spec.resources is not None and "memory" in pod.spec.resources.limits
    if not whole and not all("memory" in container.resources.limits for container in _containers(pod)):
        return 0
    limit = pod_amounts(pod, "limits").get("memory")
    return limit.value() if limit is not None else 0


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def take_away_mounts(plugin: Path) -> None:
    """Unmount the memory file systems of the volumes in a plugin's directory. Blocks; safe to repeat.

    Only a whole tmpfs or hugetlbfs that is mounted directly at the volume's path, with nothing over it, can be ours.
    All other mounts stay, with their directories. Raises OSError.
    """
    try:
        places = sorted(plugin.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for place in places:
        if mounting.is_mount(place) and [(each.root, each.file_system) for each in mounting.mounts_at(place)] in _OURS:
            mounting.unmount(place)
