"""Finds the cgroups that we may use: as root all mounted hierarchies, otherwise a delegated subtree of version 2."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from syncpod.kernel import cgroupfs
from syncpod.kernel.mountinfo import Mount
from syncpod.runtime.cgroups import version1, version2
from syncpod.runtime.cgroups.version1 import Version1
from syncpod.runtime.cgroups.version2 import Version2, pass_down

Hierarchy = Version1 | Version2


@dataclass(frozen=True)
class Mounted:
    """A mounted cgroup hierarchy, and the place of this process in it."""

    version: int
    mount_point: Path
    own_directory: Path
    """The directory of this process's cgroup."""
    controllers: frozenset[str]
    """The useful controllers of a hierarchy of version 1; version 2 lists its controllers in a file."""


@dataclass(frozen=True)
class Found:
    """The hierarchies for containers; if there are none, the reason and a remedy."""

    hierarchies: tuple[Hierarchy, ...]
    why_not: str = ""
    remedy: str = ""


def find(mounts: Iterable[Mount], own_cgroups: str, *, root: bool) -> Found:
    """Find the hierarchies that we may use; in version 2, enable all useful controllers there.

    `own_cgroups` is the text of /proc/self/cgroup, `root` is True if we are root. Raises OSError.
    """
    mounted = mounted_hierarchies(mounts, own_cgroups)
    if not mounted:
        return Found((), "no cgroups are mounted here", "mount them")
    if root:
        found = tuple(hierarchy for mount in mounted if (hierarchy := _whole(mount)))
        if found:
            return Found(found)
    for mount in mounted:
        if mount.version == 2 and (delegated := _delegated(mount)):
            return Found((delegated,))
    if root:
        return Found((), "cgroups are mounted read-only here", "mount them for writing")
    if any(mount.version == 2 and mount.mount_point == Path("/sys/fs/cgroup") for mount in mounted):
        remedy = "run as root, or start syncpod by systemd-run --user --scope"
        return Found((), "cgroups are closed to this user", remedy)
    return Found((), "cgroups are closed to this user", "run as root")


def mounted_hierarchies(mounts: Iterable[Mount], own_cgroups: str) -> tuple[Mounted, ...]:
    """Return every useful hierarchy once: by the first of its mounts that shows the cgroup of this process."""
    own = _own(own_cgroups)
    found: dict[frozenset[str], Mounted] = {}
    for each in cgroupfs.hierarchies(mounts):
        controllers = each.controllers & frozenset(version1.USED)
        if each.version == 1:
            if not controllers:
                continue
            place = next((own[name] for name in sorted(controllers) if name in own), "/")
        else:
            place = own.get("", "/")
        if PurePosixPath(place).is_relative_to(each.shown):
            directory = each.path / PurePosixPath(place).relative_to(each.shown)
            found.setdefault(controllers, Mounted(each.version, each.path, directory, controllers))
    return tuple(found.values())


def _own(text: str) -> dict[str, str]:
    """Return the cgroup of this process by controller, given /proc/self/cgroup; "" stands for version 2."""
    own: dict[str, str] = {}
    for line in text.splitlines():
        number, names, path = line.split(":", 2)
        own |= {"" if number == "0" else name: path for name in names.split(",")}
    return own


def _whole(mount: Mounted) -> Hierarchy | None:
    if not _writable(mount.mount_point, "cgroup.procs"):
        return None
    if mount.version == 1:
        return Version1(mount.mount_point, mount.controllers)
    return Version2(mount.mount_point, pass_down(mount.mount_point, frozenset(version2.USED)))


def _delegated(mount: Mounted) -> Version2 | None:
    """Return the nearest cgroup above our own that is delegated to us.

    Our own cgroup cannot be used: a cgroup with processes cannot enable controllers for its children. The cgroup must
    be an ancestor, because moving a process needs write access to the common ancestor.
    """
    directory = mount.own_directory
    while directory != mount.mount_point:
        directory = directory.parent
        if _writable(directory, "cgroup.procs", "cgroup.subtree_control"):
            return Version2(directory, pass_down(directory, frozenset(version2.USED)))
    return None


def _writable(directory: Path, *names: str) -> bool:
    return all(os.access(path, os.W_OK) for path in (directory, *(directory / name for name in names)))
