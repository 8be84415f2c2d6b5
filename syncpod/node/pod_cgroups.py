"""The cgroups of pods and of their tiers: made with their limits before a runtime puts anything there, and resized.

As root, with the cgroupfs driver. Elsewhere the runtime makes a pod's cgroup, without limits; each container's own
limits are the runtime's to enforce, or to refuse, everywhere.
"""

import errno
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from syncpod.kernel import cgroupfs
from syncpod.kernel.cgroupfs import Hierarchy, whole_hierarchies
from syncpod.kernel.mountinfo import MOUNTINFO, read_mounts
from syncpod.pod import Pod
from syncpod.translation.cgroup_limits import (
    BEST_EFFORT_LIMITS,
    CgroupLimits,
    File,
    as_files,
    asked_as_a_whole,
    burstable_limits,
    pod_limits,
    shares_of_weight,
)
from syncpod.translation.cgroup_paths import TIERS, pod_cgroup, tier_cgroup
from syncpod.translation.context import NodeContext

_CONTROLLERS = ("cpu", "memory", "hugetlb")
"""Those that limits are written for; the runtime makes a pod's cgroup for the others."""
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_MADE_BY_US = "user.syncpod.tier"
_TRIES = 5
_ABSENT = (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV)


class LimitsRefused(Exception):
    """The pod asks for a limit of all its containers together that nothing here would enforce; the text names it."""


def make_pod_cgroup(node: NodeContext, pod: Pod, *, mountinfo: Path = MOUNTINFO) -> None:
    """Make the pod's cgroup with its limits; one that is there is given them. Safe to repeat; blocks.

    Mirrors cm/pod_container_manager_linux.go, v1.36, EnsureExists. Where that cannot be done (no root, closed cgroups,
    a controller that the kernel lacks, systemd) it is left out, unless the pod itself asks for the limit: then
    :class:`LimitsRefused`. Raises :class:`~syncpod.translation.paths.UnsafeName`, OSError.
    """
    enforced: set[str] = set()
    limits, cgroup = pod_limits(pod, node.host), pod_cgroup(node, pod)
    for hierarchy in _hierarchies(node, mountinfo):
        try:
            enforced |= _make_in(hierarchy, cgroup, limits)
        except OSError as error:
            if error.errno not in _CLOSED:
                raise
    _require_enforced(node, asked_as_a_whole(pod), enforced)


@dataclass(frozen=True)
class Enforced:
    """What the kernel holds a pod to as a whole."""

    memory: int | None = None
    """Bytes; None = no limit, or none that can be read here."""
    memory_usage: int | None = None
    """Bytes, page cache included; None = it cannot be read here."""
    cpu_quota: int | None = None
    """Microseconds in each 100 ms; None as for `memory`."""
    cpu_shares: int | None = None
    """None = they cannot be read here."""


def read_pod_cgroup(node: NodeContext, pod: Pod, *, mountinfo: Path = MOUNTINFO) -> Enforced:
    """Return what the pod's cgroup is given, as far as this node writes such (GetPodCgroupConfig). Blocks.

    Raises :class:`~syncpod.translation.paths.UnsafeName`, OSError.
    """
    memory = memory_usage = cpu_quota = cpu_shares = None
    for hierarchy, has, directory in _places(node, pod, mountinfo):
        files = _FILES[hierarchy.version]
        if "memory" in has:
            memory, memory_usage = _amount(directory / files.memory), _amount(directory / files.memory_usage)
        if "cpu" in has:
            cpu_quota, cpu_shares = _amount(directory / files.cpu_quota), _amount(directory / files.cpu_shares)
            if hierarchy.version == 2 and cpu_shares is not None:
                cpu_shares = shares_of_weight(cpu_shares)
    return Enforced(memory, memory_usage, cpu_quota, cpu_shares)


def read_memory_limit(node: NodeContext, pod: Pod, container_id: str, *, mountinfo: Path = MOUNTINFO) -> int | None:
    """Return the memory that one of the pod's containers is held to; None where there is none, or none to be read.

    Blocks. Raises :class:`~syncpod.translation.paths.UnsafeName`, OSError.
    """
    for hierarchy, has, directory in _places(node, pod, mountinfo):
        if "memory" in has:
            return _amount(directory / container_id / _FILES[hierarchy.version].memory)
    return None


def change_pod_cgroup(node: NodeContext, pod: Pod, limits: CgroupLimits, *, mountinfo: Path = MOUNTINFO) -> None:
    """Give the pod's cgroup those limits that are named; the others stay as they are. Safe to repeat; blocks.

    Mirrors cm/pod_container_manager_linux.go, v1.36, SetPodCgroupConfig. Where it cannot be done it is left out, as by
    `make_pod_cgroup`: raises :class:`LimitsRefused` as that does; OSError, where the kernel refuses.
    """
    enforced: set[str] = set()
    for hierarchy, has, directory in _places(node, pod, mountinfo):
        files = [entry for entry in as_files(limits, hierarchy.version) if entry.controller in has]
        try:
            enforced |= _write(directory, files)
        except OSError as error:
            if error.errno not in _CLOSED:
                raise
    named = {"cpu": limits.cpu_quota, "memory": limits.memory}
    _require_enforced(node, {name: by for name, by in asked_as_a_whole(pod).items() if named.get(name)}, enforced)


def weigh_tiers(node: NodeContext, burstable_milli_cpu: int, *, mountinfo: Path = MOUNTINFO) -> None:
    """Let each tier that there is weigh what it should: the burstable what its pods request, the other next to nothing.

    Mirrors cm/qos_container_manager_linux.go, v1.36, setCPUCgroupConfig. Safe to repeat; blocks. Raises OSError.
    """
    weights = {TIERS["Burstable"]: burstable_limits(burstable_milli_cpu), TIERS["BestEffort"]: BEST_EFFORT_LIMITS}
    for hierarchy in _hierarchies(node, mountinfo):
        if "cpu" in _controllers(hierarchy):
            for tier, limits in weights.items():
                directory = hierarchy.path / tier_cgroup(node, tier).relative_to("/")
                try:
                    _write(directory, as_files(limits, hierarchy.version))
                except OSError as error:
                    if error.errno not in _CLOSED:
                        raise


def remove_empty_tiers(node: NodeContext, *, mountinfo: Path = MOUNTINFO) -> None:
    """Remove the tiers, and the cgroups above them, that were made here and hold nothing any more.

    Difference: the kubelet's stay. Safe to repeat, and while pods' cgroups are being made; blocks. Raises OSError.
    """
    for hierarchy in _hierarchies(node, mountinfo):
        for tier in TIERS.values():
            directory = hierarchy.path / tier_cgroup(node, tier).relative_to("/")
            try:
                cgroupfs.remove_marked(directory, hierarchy.path, _MADE_BY_US)
            except OSError as error:
                if error.errno not in _CLOSED:
                    raise


def _hierarchies(node: NodeContext, mountinfo: Path) -> tuple[Hierarchy, ...]:
    """Return where this node writes limits; nowhere where it makes no cgroups."""
    if not node.pod_cgroups or node.cgroup_driver != "cgroupfs":
        return ()
    return whole_hierarchies(read_mounts(mountinfo))


def _make_in(hierarchy: Hierarchy, cgroup: PurePosixPath, limits: CgroupLimits) -> set[str]:
    """Make a cgroup with its limits in one hierarchy; return the controllers by which they are enforced there."""
    has = _controllers(hierarchy)
    files = [entry for entry in as_files(limits, hierarchy.version) if entry.controller in has]
    if not files:
        return set()
    directory = hierarchy.path / cgroup.relative_to("/")
    for tries_left in reversed(range(_TRIES)):
        try:
            for above in _above(hierarchy.path, directory):
                _make(hierarchy, above, marked=True)
                if hierarchy.version == 2:
                    _hand_down(above, has)
            _make(hierarchy, directory, marked=False)
            break
        except FileNotFoundError:
            # A tier that was empty has just been removed.
            if not tries_left:
                raise
    return _write(directory, files)


def _controllers(hierarchy: Hierarchy) -> frozenset[str]:
    if hierarchy.version == 1:
        return hierarchy.controllers & frozenset(_CONTROLLERS)
    return frozenset((hierarchy.path / "cgroup.controllers").read_text().split()) & frozenset(_CONTROLLERS)


def _above(root: Path, directory: Path) -> Iterator[Path]:
    """Yield the cgroups between a hierarchy's root and one of its cgroups, from the top, the root included."""
    return (root / part for part in reversed(directory.relative_to(root).parents))


def _make(hierarchy: Hierarchy, directory: Path, *, marked: bool) -> None:
    """Make a cgroup, or find it made; a marked one is ours to remove once it is empty."""
    if not cgroupfs.make(directory, mark=_MADE_BY_US if marked else ""):
        return
    if "cpuset" in hierarchy.controllers:
        # Where version 1 has CPU and cpuset in one hierarchy: an empty set lets no process in.
        for name in ("cpuset.cpus", "cpuset.mems"):
            _set(directory / name, (directory.parent / name).read_text().strip())


def _hand_down(directory: Path, controllers: Iterable[str]) -> None:
    """Let the cgroups in a cgroup of version 2 have the controllers that it has itself, where the kernel lets it."""
    held = set((directory / "cgroup.subtree_control").read_text().split())
    for controller in sorted(frozenset(controllers) - held):
        try:
            _set(directory / "cgroup.subtree_control", f"+{controller}")
        except OSError as error:
            # Processes are in the cgroup itself, or realtime ones somewhere: then the files below it are not there.
            if error.errno not in (errno.EBUSY, errno.EINVAL):
                raise


def _write(directory: Path, files: Iterable[File]) -> set[str]:
    """Write files of a cgroup; return the controllers of which all were there."""
    entries = tuple(files)
    absent = {entry.controller for entry in entries if not _set(directory / entry.name, entry.value)}
    return {entry.controller for entry in entries} - absent


def _set(file: Path, value: str) -> bool:
    """Write one value; False where the kernel has no such file or controller. Raises OSError."""
    try:
        cgroupfs.write(file, value)
    except OSError as error:
        if error.errno in _ABSENT:
            return False
        reason = os.strerror(error.errno or 0).lower()
        raise OSError(error.errno, f"cannot be set to {value}: {reason}", str(file)) from error
    return True


def _places(node: NodeContext, pod: Pod, mountinfo: Path) -> Iterator[tuple[Hierarchy, frozenset[str], Path]]:
    """Yield where the pod's cgroup may be, with the controllers that limits are written for there."""
    cgroup = pod_cgroup(node, pod).relative_to("/")
    return ((each, _controllers(each), each.path / cgroup) for each in _hierarchies(node, mountinfo))


class _Files(NamedTuple):
    """The names of files that say what a cgroup is given."""

    memory: str
    memory_usage: str
    cpu_quota: str
    cpu_shares: str


_FILES = {
    1: _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "cpu.cfs_quota_us", "cpu.shares"),
    2: _Files("memory.max", "memory.current", "cpu.max", "cpu.weight"),
}
_UNLIMITED = 1 << 62
"""Memory of version 1 is limited to nearly 2^63 bytes where it is not."""


def _amount(file: Path) -> int | None:
    """Read a limit or an amount, of CPU its first number; None where there is no limit, or no such file."""
    try:
        first = file.read_text().split()[0]
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return None
    amount = _UNLIMITED if first == "max" else int(first)
    return amount if 0 <= amount < _UNLIMITED else None


def _require_enforced(node: NodeContext, asked: Mapping[str, str], enforced: Collection[str]) -> None:
    """Raise LimitsRefused for the first limit that is asked for and that no controller enforces."""
    for name, controller in asked.items():
        if controller not in enforced:
            raise LimitsRefused(
                f"spec.resources.limits[{name}]: cannot be enforced for the pod as a whole, since "
                f"{_why_not(node, controller)}: limit the containers instead"
            )


def _why_not(node: NodeContext, controller: str) -> str:
    if not node.pod_cgroups:
        return "this node makes no cgroups for pods"
    if node.cgroup_driver != "cgroupfs":
        return f"the runtime's cgroup driver is {node.cgroup_driver}"
    if os.geteuid() != 0:
        return "cgroups are closed to this user"
    return f"the {controller} controller is not to be had here"
