"""Resource limits and statistics of containers by the kernel's cgroups.

A container's cgroup is `<cgroup_parent of its sandbox>/<container id>`, in every useful hierarchy, of version 1 and of
version 2. Each limit is set in the hierarchy of its controller. Without access to cgroups everything works except
limits, which are refused.

All functions block, most for less than a millisecond; `remove` for up to 0.7 s in each hierarchy.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from protos.cri.v1.api_pb2 import LinuxContainerResources
from syncpod.kernel import cgroupfs
from syncpod.kernel.mountinfo import read_mounts
from syncpod.runtime.cgroups import files, kill, mounts
from syncpod.runtime.cgroups.files import CgroupRefused, Memory, Pressures
from syncpod.runtime.cgroups.mounts import Hierarchy
from syncpod.runtime.cgroups.resource_changes import undoing
from syncpod.runtime.cgroups.version2 import swap_max

__all__ = ["CgroupRefused", "CgroupUsage", "Cgroups", "container_cgroup"]

_DEFAULT_PARENT = "/syncpod-embedded"
_ID = re.compile(r"[0-9a-f]{64}")
_PAGE_SIZE = re.compile(r"[0-9]+[KMGT]?B")
_UNIFIED_KEY = re.compile(r"[a-z]+(\.[A-Za-z0-9_-]+)+")
_POLICIES = ("memory.oom.group", "memory.swap.max", "cpu.weight", "cpu.weight.nice", "cpu.idle", "io.weight")
"""Files of version 2 that are weights, or that the kubelet sets for every container. A file that cannot be set is
ignored, so that a container without limits is never refused."""
_ENFORCED_BY = {"cpu": "cpu", "memory": "memory", "hugepages": "hugetlb"}
"""By resource: the controller that enforces its limits."""
_MAKE_TRIES = 3
_MADE_BY_US = "user.syncpod.made"
"""The extended attribute of parents that a server of ours has made. This server or a later one removes them once they
are empty."""

T = TypeVar("T")


@dataclass(frozen=True)
class CgroupUsage:
    """The usage of all processes in a cgroup and in the cgroups below it."""

    timestamp: int
    """When this was read: nanoseconds since the epoch."""
    cpu_nanoseconds: int | None
    """Cumulative nanoseconds of one core; only grows."""
    memory: Memory | None
    """The use of memory; None without the memory controller; `usage.py` then reads it from /proc."""
    processes: int
    """The number of tasks, as the pids controller counts them; without that controller, the number of processes."""
    cpu_pressure: Pressures | None
    memory_pressure: Pressures | None
    io_pressure: Pressures | None
    """All three pressures are None with version 1 alone."""


def container_cgroup(parent: str, container_id: str) -> str:
    """Return the path of a container's cgroup, given its sandbox's `cgroup_parent`.

    Raises :class:`CgroupRefused` for a parent with `..`, and for one in systemd's form.
    """
    path = str(PurePosixPath(parent or _DEFAULT_PARENT, container_id))
    if parent:
        _parts("linux.cgroup_parent", parent)
    _ours(path)
    return path


@dataclass(frozen=True)
class Cgroups:
    """The hierarchies for containers' cgroups; none without access to cgroups, with the reason in `why_not`."""

    hierarchies: tuple[Hierarchy, ...] = ()
    why_not: str = ""
    """The reason, as the end of a sentence: `cgroups are closed to this user`. Empty if there are hierarchies."""
    remedy: str = ""

    @classmethod
    def find(cls) -> Cgroups:
        """Find the hierarchies that we may use: all as root, else a delegated subtree of version 2."""
        own_cgroups = cgroupfs.read(Path("/proc/self/cgroup")) or ""
        found = mounts.find(read_mounts(), own_cgroups, root=os.geteuid() == 0)
        return cls(found.hierarchies, found.why_not, found.remedy)

    @property
    def controllers(self) -> tuple[str, ...]:
        """The controllers whose limits can be enforced, in order."""
        return tuple(sorted({name for each in self.hierarchies for name in each.controllers if "=" not in name}))

    def refusal(self, resources: LinuxContainerResources) -> str | None:
        """Return the sentence for the first limit that cannot be enforced; None if all can.

        Weights, and limits that the pod does not set, are never refused.
        """
        limits = "spec.containers[].resources.limits"
        wanted = [("memory limit", "memory", limits)] if resources.memory_limit_in_bytes > 0 else []
        if resources.cpu_quota > 0:
            wanted.append(("cpu limit", "cpu", limits))
        if resources.cpuset_cpus or resources.cpuset_mems:
            wanted.append(("cpuset", "cpuset", "linux.resources.cpuset_cpus and cpuset_mems"))
        for limit in resources.hugepage_limits:
            if not _PAGE_SIZE.fullmatch(limit.page_size):
                return f'linux.resources.hugepage_limits: page size "{limit.page_size}": must be like 2MB'
            if limit.limit > 0:
                wanted.append((f"hugepages-{limit.page_size} limit", "hugetlb", limits))
        for what, controller, remove in wanted:
            if controller not in self.controllers:
                return self._cannot(what, controller, remove)
        return _swap_refusal(resources) or self._unified_refusal(resources)

    @property
    def unenforced(self) -> Mapping[str, str]:
        """The resources (`cpu`, `memory`, `hugepages`) whose limits cannot be enforced, with reason and remedy.

        Each text is the end of a sentence: `cgroups are closed to this user: run as root`.
        """
        said = {name: self._why_not(by) for name, by in _ENFORCED_BY.items() if by not in self.controllers}
        return {name: f"{why}: {remedy}" if remedy else why for name, (why, remedy) in said.items()}

    def make(self, path: str, resources: LinuxContainerResources) -> None:
        """Make a container's cgroup with its limits, or set them on an existing one. Does nothing without hierarchies.

        Raises :class:`CgroupRefused`, and then removes a cgroup that it has made.
        """
        refusal = self.refusal(resources)
        if refusal:
            raise CgroupRefused(refusal)
        try:
            for hierarchy, directory in self._directories(path):
                _make(hierarchy, directory)
                hierarchy.apply(directory, resources)
        except CgroupRefused:
            with contextlib.suppress(CgroupRefused):
                self.remove(path)
            raise

    def procs(self, path: str) -> tuple[str, ...]:
        """Return the files into which a process writes `0` to enter the container's cgroup; () without hierarchies."""
        return tuple(str(directory / "cgroup.procs") for _, directory in self._directories(path))

    def update(self, path: str, resources: LinuxContainerResources, now: LinuxContainerResources) -> None:
        """Change the given limits; the others stay. Does nothing without hierarchies.

        Raises :class:`CgroupRefused`, also if the container has no cgroup. Limits that were already changed are then
        reset to those of `now`.
        """
        refusal = self.refusal(resources)
        if refusal:
            raise CgroupRefused(refusal)
        for _, directory in self._directories(path):
            if not directory.is_dir():
                raise CgroupRefused(f"{directory}: there is no such cgroup")
        try:
            for hierarchy, directory in self._directories(path):
                hierarchy.apply(directory, resources)
        except CgroupRefused:
            for hierarchy, directory in self._directories(path):
                with contextlib.suppress(CgroupRefused):  # undo the rest: the caller gets the first refusal
                    hierarchy.apply(directory, undoing(now, resources))
            raise

    def usage(self, path: str) -> CgroupUsage | None:
        """Return the usage of a container's or pod's processes, given its cgroup; None if it has no cgroup."""
        parts = _parts("cgroup", path)
        places = [(each, each.base.joinpath(*parts)) for each in self.hierarchies]
        places = [(each, directory) for each, directory in places if directory.is_dir()]
        if not places:
            return None

        def first(read: Callable[[Hierarchy, Path], T | None]) -> T | None:
            return next((value for each, directory in places if (value := read(each, directory)) is not None), None)

        tasks = first(lambda each, directory: each.tasks(directory))
        return CgroupUsage(
            timestamp=time.time_ns(),
            cpu_nanoseconds=first(lambda each, directory: each.cpu_nanoseconds(directory)),
            memory=first(lambda each, directory: each.memory(directory)),
            processes=len(cgroupfs.processes_below(places[0][1])) if tasks is None else tasks,
            cpu_pressure=first(lambda each, directory: each.pressures(directory, "cpu")),
            memory_pressure=first(lambda each, directory: each.pressures(directory, "memory")),
            io_pressure=first(lambda each, directory: each.pressures(directory, "io")),
        )

    def oom_killed(self, path: str) -> bool:
        """Return whether the kernel killed one of the container's processes because it ran out of memory.

        Only the cgroup has this information, so call this before the cgroup is removed.
        """
        return any((each.oom_kills(directory) or 0) > 0 for each, directory in self._directories(path))

    def kill(self, path: str) -> None:
        """Kill everything in the container's cgroup, later forks included; a missing cgroup is ignored.

        The processes may still be dying when this returns, and a new process can enter afterwards.
        """
        kill.kill(tuple(directory for _, directory in self._directories(path)))

    def remove(self, path: str) -> None:
        """Remove the container's cgroup, those below it, and empty parents that we have made.

        Safe to repeat. Raises :class:`CgroupRefused` where processes are still in it.
        """
        for hierarchy, directory in self._directories(path):
            files.remove_tree(directory)
            cgroupfs.remove_marked(directory.parent, hierarchy.base, _MADE_BY_US)

    def remove_parent(self, parent: str) -> None:
        """Remove a pod's cgroup, which is its sandbox's `cgroup_parent`, and its parents, if they are ours and empty.

        Usually the removal of the pod's last container has done this. Raises OSError.
        """
        parts = _parts("linux.cgroup_parent", parent or _DEFAULT_PARENT)
        for hierarchy in self.hierarchies:
            cgroupfs.remove_marked(hierarchy.base.joinpath(*parts), hierarchy.base, _MADE_BY_US)

    def _directories(self, path: str) -> Iterator[tuple[Hierarchy, Path]]:
        parts = _ours(path)
        return ((hierarchy, hierarchy.base.joinpath(*parts)) for hierarchy in self.hierarchies)

    def _cannot(self, what: str, controller: str, remove: str) -> str:
        why, remedy = self._why_not(controller)
        otherwise = f", or {remedy}" if remedy else ""
        return f"{what}: cannot be enforced, since {why}: remove {remove}{otherwise}"

    def _why_not(self, controller: str) -> tuple[str, str]:
        """Return why a controller is missing, and a remedy; "" if there is none."""
        if not self.hierarchies:
            return self.why_not, self.remedy
        if os.geteuid() == 0:
            return f"no {controller} controller is available here", ""
        return f"the {controller} controller is not delegated to this user", "run as root"

    def _unified_refusal(self, resources: LinuxContainerResources) -> str | None:
        version_2 = [each for each in self.hierarchies if each.version == 2]
        ours = {name for each in version_2 for name in each.controllers}
        for key in sorted(resources.unified):
            field = f'linux.resources.unified["{key}"]'
            if not _UNIFIED_KEY.fullmatch(key) or key.startswith("cgroup."):
                return f"{field}: must name a controller's file, such as memory.high"
            if key in _POLICIES or key.partition(".")[0] in ours:
                continue
            if self.hierarchies and not version_2:
                return f"{field}: cannot be enforced, since cgroups are of version 1 here: remove it"
            return self._cannot(field, key.partition(".")[0], "it")
        return None


def _swap_refusal(resources: LinuxContainerResources) -> str | None:
    try:
        # This only checks that the two limits are consistent, as version 1 requires, too.
        swap_max(resources)
    except CgroupRefused as refused:
        return str(refused)
    return None


def _make(hierarchy: Hierarchy, directory: Path) -> None:
    """Make a cgroup and its parents. If another process removes an empty parent meanwhile, start again from the top."""
    above = [hierarchy.base / parent for parent in reversed(directory.relative_to(hierarchy.base).parents)]
    for tries_left in reversed(range(_MAKE_TRIES)):
        try:
            for place in above:
                if place != hierarchy.base and cgroupfs.make(place, mark=_MADE_BY_US):
                    hierarchy.prepare(place)
            if cgroupfs.make(directory):
                hierarchy.prepare(directory)
            # This comes after the loop: an empty parent may be removed, and made again, at any moment.
            for place in above:
                hierarchy.open_to(place)
        except FileNotFoundError as error:
            if not tries_left:
                raise CgroupRefused(
                    f"{directory}: cannot be made: a cgroup above it is removed time and again"
                ) from error
        except OSError as error:
            raise CgroupRefused(f"{directory}: cannot be made: {(error.strerror or str(error)).lower()}") from error
        else:
            return


def _ours(path: str) -> tuple[str, ...]:
    """Return the parts of a container's cgroup path.

    The last must be an id, so that no other cgroup is ever changed.
    """
    parts = _parts("cgroup", path)
    if not parts or not _ID.fullmatch(parts[-1]):
        raise CgroupRefused(f'cgroup "{path}": must end in the id of a container')
    return parts


def _parts(what: str, path: str) -> tuple[str, ...]:
    """Return the parts of a cgroup's path. Raises :class:`CgroupRefused` for an unsafe one."""
    parts = tuple(part for part in path.split("/") if part)
    if any(part.endswith(".slice") for part in parts):
        raise CgroupRefused(
            f'{what} "{path}": names a slice of systemd, while the cgroup driver here is cgroupfs: '
            "give a path such as /syncpod/pod1"
        )
    if not path.startswith("/") or any(part in (".", "..") or not part.isprintable() for part in parts):
        raise CgroupRefused(f'{what} "{path}": must be an absolute path without "." and ".."')
    if any(len(part.encode()) > 255 for part in parts) or len(path.encode()) > 2048:
        raise CgroupRefused(f'{what} "{path[:80]}…": is too long')
    return parts
