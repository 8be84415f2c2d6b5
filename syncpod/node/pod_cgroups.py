"""The cgroups of pods and of their tiers: made with their limits before the runtime uses them, and resized.

This needs root and the cgroupfs driver. Elsewhere the runtime makes a pod's cgroup, without limits. The limits of
single containers are always the runtime's to enforce or to refuse.
"""

import errno
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from syncpod.kernel import cgroupfs
from syncpod.kernel.cgroupfs import Hierarchy, mounted_hierarchies
from syncpod.kernel.mountinfo import MOUNTINFO
from syncpod.kernel.os_errors import where_and_why
from syncpod.pod import Pod
from syncpod.translation.cgroup_limits import (
    BEST_EFFORT_LIMITS,
    CgroupLimits,
    File,
    as_files,
    burstable_limits,
    limits_of_all_pods,
    pod_level_controllers,
    pod_limits,
    shares_of_weight,
)
from syncpod.translation.cgroup_paths import TIERS, pod_cgroup, tier_cgroup
from syncpod.translation.context import NodeContext

_CONTROLLERS = ("cpu", "memory", "hugetlb")
"""The controllers with limits of ours. The runtime makes a pod's cgroup in the hierarchies of all others."""
_AND_PIDS = (*_CONTROLLERS, "pids")
"""The controllers of the cgroup above all pods; and of each pod's cgroup if the node limits a pod's processes."""
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_MADE_BY_US = "user.syncpod.tier"
_TRIES = 5
_GONE = (errno.ENOENT, errno.ENODEV)
"""Errors of a removed cgroup; ENODEV comes from a file that is still open."""
_ABSENT = (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV)


class LimitsRefused(Exception):
    """The node cannot enforce a limit that the pod sets for all its containers together; the text names the limit."""


def make_pod_cgroup(node: NodeContext, pod: Pod, *, mountinfo: Path = MOUNTINFO) -> None:
    """Make the pod's cgroup with its limits, or set them on the existing one. Safe to repeat; blocks.

    Mirrors cm/pod_container_manager_linux.go, v1.36, EnsureExists. Limits that cannot be set (no root, closed cgroups,
    a controller that the kernel lacks, systemd) are left out. But if one of them is a limit that the pod itself sets,
    or the node's limit of processes, this raises :class:`LimitsRefused`. Raises
    :class:`~syncpod.translation.paths.UnsafeName`, OSError.
    """
    enforced: set[str] = set()
    limits, cgroup = pod_limits(pod, node.host), pod_cgroup(node, pod)
    if node.pod_max_pids > 0:
        limits = replace(limits, pids=node.pod_max_pids)
    for hierarchy in _hierarchies(node, mountinfo):
        try:
            enforced |= _make_in(hierarchy, cgroup, limits)
        except OSError as error:
            if error.errno not in _CLOSED:
                raise
    _require_enforced(node, pod_level_controllers(pod), enforced)
    if limits.pids is not None and "pids" not in enforced:
        raise LimitsRefused(pids_unlimited(node, mountinfo=mountinfo) or _pids_refused(node, "the kernel refuses it"))


def unenforced_as_a_whole(node: NodeContext, pod: Pod, *, mountinfo: Path = MOUNTINFO) -> tuple[str, ...]:
    """Return a sentence for each pod-level limit that cannot be enforced on a pod without a cgroup so far; () if none.

    Blocks. Raises OSError.
    """
    asked = pod_level_controllers(pod)
    if not asked:
        return ()
    here = _hierarchies(node, mountinfo) if os.geteuid() == 0 else ()
    return _refused_as_a_whole(node, asked, {name for each in here for name in _controllers(each)})


def pids_unlimited(node: NodeContext, *, mountinfo: Path = MOUNTINFO) -> str:
    """Return why the node's limit of processes for each pod cannot be enforced here; "" if it can.

    Also "" if the node sets no such limit. Blocks. Raises OSError.
    """
    if node.pod_max_pids <= 0:
        return ""
    has = any("pids" in _controllers(each, ("pids",)) for each in _hierarchies(node, mountinfo))
    return "" if has and os.geteuid() == 0 else _pids_refused(node, _why_not(node, "pids"))


def _pids_refused(node: NodeContext, why: str) -> str:
    return f"the limit of {node.pod_max_pids} processes for each pod (--pod-max-pids) cannot be enforced, since {why}"


def limit_all_pods(node: NodeContext, *, mountinfo: Path = MOUNTINFO) -> str:
    """Give the cgroup above all pods its weight and limits; make it if needed. Return the limits that it lacks, or "".

    A memory limit at or below the pods' present use is not set: the kernel would kill some pods' processes at once.
    Safe to repeat; blocks; never fails. Mirrors cm/node_container_manager_linux.go, v1.36,
    enforceNodeAllocatableCgroups. Difference: the kubelet sets that memory limit too.
    """
    capacity = node.capacity if node.capacity_of_pods is None else node.capacity_of_pods
    wanted = limits_of_all_pods(capacity, node.host, node.reserved_pids)
    missing = {entry.controller for entry in as_files(wanted, 2)}
    obstacle = ""
    for hierarchy in _hierarchies(node, mountinfo):
        directory = hierarchy.path / tier_cgroup(node, "").relative_to("/")
        try:
            used = _amount(directory / _FILES[hierarchy.version].memory_usage)
            fits = used is None or wanted.memory is None or used < wanted.memory
            obstacle = obstacle if fits else "pods use as much memory as they may have together"
            missing -= _limit(hierarchy, directory, wanted if fits else replace(wanted, memory=None))
        except OSError as error:
            if error.errno not in _CLOSED:
                obstacle = where_and_why(error)
    if not missing:
        return ""
    names = sorted(missing)
    return f"{', '.join(names)}: {obstacle or _why_not(node, names[0])}"


@dataclass(frozen=True)
class Enforced:
    """The limits that the kernel enforces on a pod as a whole, and the pod's memory use."""

    memory: int | None = None
    """The memory limit in bytes; None = no limit, or it cannot be read here."""
    memory_usage: int | None = None
    """The used memory in bytes, page cache included; None = it cannot be read here."""
    cpu_quota: int | None = None
    """CPU time in microseconds of each 100 ms; None as for `memory`."""
    cpu_shares: int | None = None
    """The CPU shares; None = they cannot be read here."""


def read_pod_cgroup(node: NodeContext, pod: Pod, *, mountinfo: Path = MOUNTINFO) -> Enforced:
    """Return the settings of the pod's cgroup, if this node writes any (GetPodCgroupConfig). Blocks.

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
    """Return the memory limit of one of the pod's containers; None if it has none, or it cannot be read here.

    Blocks. Raises :class:`~syncpod.translation.paths.UnsafeName`, OSError.
    """
    for hierarchy, has, directory in _places(node, pod, mountinfo):
        if "memory" in has:
            return _amount(directory / container_id / _FILES[hierarchy.version].memory)
    return None


def change_pod_cgroup(node: NodeContext, pod: Pod, limits: CgroupLimits, *, mountinfo: Path = MOUNTINFO) -> None:
    """Set the given limits of the pod's cgroup; all others stay as they are. Safe to repeat; blocks.

    Mirrors cm/pod_container_manager_linux.go, v1.36, SetPodCgroupConfig. A limit that cannot be set is left out, or
    raises :class:`LimitsRefused`, as in `make_pod_cgroup`. Raises OSError if the kernel refuses.
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
    _require_enforced(node, {name: by for name, by in pod_level_controllers(pod).items() if named.get(name)}, enforced)


def weigh_tiers(node: NodeContext, burstable_milli_cpu: int, *, mountinfo: Path = MOUNTINFO) -> None:
    """Set the weights of the existing tiers: the burstable one by its pods' requests, best-effort to the minimum.

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
    """Remove the empty tiers, and the empty cgroups above them, that this node has made.

    Difference: the kubelet leaves its tiers. Safe to repeat, even while pods' cgroups are being made; blocks. Raises
    OSError.
    """
    for hierarchy in _hierarchies(node, mountinfo):
        for tier in TIERS.values():
            directory = hierarchy.path / tier_cgroup(node, tier).relative_to("/")
            try:
                cgroupfs.remove_marked(directory, hierarchy.path, _MADE_BY_US)
            except OSError as error:
                if error.errno not in _CLOSED:
                    raise


def remove_left_tiers(node: NodeContext, *, mountinfo: Path = MOUNTINFO) -> None:
    """Remove the empty tiers, and the cgroup above all pods, from every hierarchy: the node is purged.

    Unlike `remove_empty_tiers`, this also removes cgroups without our mark, which the runtime has made in hierarchies
    where we set no limits. The cgroup above all pods stays if it is in use, or if it is older than the node. It is
    older if it has no mark in a hierarchy with the CPU controller, so that `remove_empty_tiers` has left it there.
    Blocks. Raises OSError.
    """
    remove_empty_tiers(node, mountinfo=mountinfo)
    top = tier_cgroup(node, "").relative_to("/")
    weighed = [each.path for each in _hierarchies(node, mountinfo) if _controllers(each, ("cpu",))]
    is_kept = any((path / top).is_dir() for path in weighed)
    tiers = [tier for tier in TIERS.values() if tier]
    for hierarchy in mounted_hierarchies(mountinfo):
        for tier in tiers if is_kept else (*tiers, ""):
            try:
                (hierarchy.path / tier_cgroup(node, tier).relative_to("/")).rmdir()
            except OSError as error:
                if error.errno not in (*_CLOSED, *_GONE, errno.EBUSY, errno.ENOTEMPTY):
                    raise


def _hierarchies(node: NodeContext, mountinfo: Path) -> tuple[Hierarchy, ...]:
    """Return the hierarchies in which this node writes limits; none if it makes no cgroups."""
    if not node.pod_cgroups or node.cgroup_driver != "cgroupfs":
        return ()
    return mounted_hierarchies(mountinfo)


def _make_in(hierarchy: Hierarchy, cgroup: PurePosixPath, limits: CgroupLimits) -> set[str]:
    """Make a pod's cgroup with its limits in one hierarchy; return the controllers that enforce them."""
    has = _controllers(hierarchy, _CONTROLLERS if limits.pids is None else _AND_PIDS)
    files = [entry for entry in as_files(limits, hierarchy.version) if entry.controller in has]
    if not files:
        return set()
    directory = hierarchy.path / cgroup.relative_to("/")
    _make_whole(hierarchy, directory, has, marked=False)
    return _write(directory, files)


def _limit(hierarchy: Hierarchy, directory: Path, limits: CgroupLimits) -> set[str]:
    """Make the cgroup above all pods with its limits in one hierarchy; return the controllers that enforce them."""
    has = _controllers(hierarchy, _AND_PIDS)
    files = [entry for entry in as_files(limits, hierarchy.version) if entry.controller in has]
    if not files:
        return set()
    _make_whole(hierarchy, directory, has, marked=True)
    return _write(directory, files)


def _make_whole(hierarchy: Hierarchy, directory: Path, has: Collection[str], *, marked: bool) -> None:
    """Make a cgroup and its ancestors, and enable the controllers in the ancestors."""
    above = tuple(_above(hierarchy.path, directory))
    for tries_left in reversed(range(_TRIES)):
        try:
            for each in above:
                _make(hierarchy, each, marked=True)
            _make(hierarchy, directory, marked=marked)
            if hierarchy.version == 2:
                # This must follow the making: an empty tier could be removed and made anew at any moment.
                for each in above:
                    _hand_down(each, has)
            break
        except OSError as error:
            # A tier that was empty has just been removed.
            if error.errno not in _GONE or not tries_left:
                raise


def _controllers(hierarchy: Hierarchy, wanted: Collection[str] = _CONTROLLERS) -> frozenset[str]:
    """Return the wanted controllers that a hierarchy has."""
    if hierarchy.version == 1:
        return hierarchy.controllers & frozenset(wanted)
    return frozenset((hierarchy.path / "cgroup.controllers").read_text().split()) & frozenset(wanted)


def _above(root: Path, directory: Path) -> Iterator[Path]:
    """Yield the cgroups between a hierarchy's root and one of its cgroups, from the top, the root included."""
    return (root / part for part in reversed(directory.relative_to(root).parents))


def _make(hierarchy: Hierarchy, directory: Path, *, marked: bool) -> None:
    """Make a cgroup, unless it exists, with our mark: a marked cgroup is ours to remove once it is empty."""
    if not cgroupfs.make(directory, mark=_MADE_BY_US if marked else ""):
        return
    if "cpuset" in hierarchy.controllers:
        # Version 1 may have cpu and cpuset in one hierarchy, and an empty cpuset lets no process in.
        for name in ("cpuset.cpus", "cpuset.mems"):
            _set(directory / name, (directory.parent / name).read_text().strip())


def _hand_down(directory: Path, controllers: Iterable[str]) -> None:
    """Enable these controllers for the cgroups below one of version 2, as far as the kernel allows."""
    held = set((directory / "cgroup.subtree_control").read_text().split())
    for controller in sorted(frozenset(controllers) - held):
        try:
            _set(directory / "cgroup.subtree_control", f"+{controller}")
        except OSError as error:
            # EBUSY: the cgroup has processes of its own. EINVAL: it has realtime processes. The controller's files are
            # then missing.
            if error.errno not in (errno.EBUSY, errno.EINVAL):
                raise


def _write(directory: Path, files: Iterable[File]) -> set[str]:
    """Write files of a cgroup; return the controllers for which all files exist."""
    entries = tuple(files)
    absent = {entry.controller for entry in entries if not _set(directory / entry.name, entry.value)}
    return {entry.controller for entry in entries} - absent


def _set(file: Path, value: str) -> bool:
    """Write one value; False if the kernel has no such file or controller. Raises OSError."""
    try:
        cgroupfs.write(file, value)
    except OSError as error:
        if error.errno in _ABSENT:
            return False
        reason = os.strerror(error.errno or 0).lower()
        raise OSError(error.errno, f"cannot be set to {value}: {reason}", str(file)) from error
    return True


def _places(node: NodeContext, pod: Pod, mountinfo: Path) -> Iterator[tuple[Hierarchy, frozenset[str], Path]]:
    """Yield each hierarchy, its controllers that have limits of ours, and the pod's cgroup in it."""
    cgroup = pod_cgroup(node, pod).relative_to("/")
    return ((each, _controllers(each), each.path / cgroup) for each in _hierarchies(node, mountinfo))


class _Files(NamedTuple):
    """The names of the files that hold a cgroup's settings and memory use."""

    memory: str
    memory_usage: str
    cpu_quota: str
    cpu_shares: str


_FILES = {
    1: _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "cpu.cfs_quota_us", "cpu.shares"),
    2: _Files("memory.max", "memory.current", "cpu.max", "cpu.weight"),
}
_UNLIMITED = 1 << 62
"""In version 1, unlimited memory reads as nearly 2^63 bytes."""


def _amount(file: Path) -> int | None:
    """Read a limit or an amount (for CPU, the first number); None if there is no limit, or no such file."""
    try:
        first = file.read_text().split()[0]
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return None
    amount = _UNLIMITED if first == "max" else int(first)
    return amount if 0 <= amount < _UNLIMITED else None


def _require_enforced(node: NodeContext, asked: Mapping[str, str], enforced: Collection[str]) -> None:
    """Raise LimitsRefused for the requested limits that no controller enforces."""
    if refused := _refused_as_a_whole(node, asked, enforced):
        raise LimitsRefused("; ".join(refused))


def _refused_as_a_whole(node: NodeContext, asked: Mapping[str, str], enforced: Collection[str]) -> tuple[str, ...]:
    return tuple(
        f"spec.resources.limits[{name}]: cannot be enforced for the pod as a whole, since "
        f"{_why_not(node, controller)}: limit the containers instead"
        for name, controller in asked.items()
        if controller not in enforced
    )


def _why_not(node: NodeContext, controller: str) -> str:
    if not node.pod_cgroups:
        return "this node makes no cgroups for pods"
    if node.cgroup_driver != "cgroupfs":
        return f"the runtime's cgroup driver is {node.cgroup_driver}"
    if os.geteuid() != 0:
        return "cgroups are closed to this user"
    return f"the {controller} controller is not available here"
