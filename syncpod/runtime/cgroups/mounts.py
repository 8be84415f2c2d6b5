"""Which cgroups are open to us: as root all that are mounted, as anybody else a delegated part of version 2."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from syncpod.runtime.cgroups import version1, version2
from syncpod.runtime.cgroups.version1 import Version1
from syncpod.runtime.cgroups.version2 import Version2, pass_down

Hierarchy = Version1 | Version2

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mounted:
    """A cgroup hierarchy as it is mounted, and where this process is in it."""

    version: int
    mount_point: Path
    root: PurePosixPath
    """The cgroup that the mount point shows."""
    own: PurePosixPath
    """The cgroup of this process."""
    controllers: frozenset[str]
    """Of version 1; version 2 says them in a file."""

    @property
    def own_directory(self) -> Path | None:
        """Where this process's cgroup is seen; None if the mount shows another part of the hierarchy."""
        try:
            return self.mount_point / self.own.relative_to(self.root)
        except ValueError:
            return None


@dataclass(frozen=True)
class Found:
    """The hierarchies that containers can be put in; where there are none, why, and what would help."""

    hierarchies: tuple[Hierarchy, ...]
    why_not: str = ""
    remedy: str = ""


def find(mountinfo: str, own_cgroups: str, *, root: bool) -> Found:
    """Find what is open, and in version 2 have all useful controllers passed down to there.

    The arguments are the texts of /proc/self/mountinfo and /proc/self/cgroup, and whether we are root. Raises OSError.
    """
    mounted = hierarchies(mountinfo, own_cgroups)
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


def hierarchies(mountinfo: str, own_cgroups: str) -> tuple[Mounted, ...]:
    """Return every hierarchy of use to us, once each: where it was mounted first."""
    own = _own(own_cgroups)
    found: dict[frozenset[str], Mounted] = {}
    for line in mountinfo.splitlines():
        fields = line.split()
        after = fields.index("-") + 1
        kind, options = fields[after], fields[after + 2].split(",")
        if kind == "cgroup":
            version, controllers = 1, frozenset(version1.USED) & set(options)
            place = next((own[name] for name in sorted(controllers) if name in own), None)
            if not controllers:
                continue
        elif kind == "cgroup2":
            version, controllers, place = 2, frozenset[str](), own.get("")
        else:
            continue
        mounted = Mounted(version, Path(_plain(fields[4])), _path(fields[3]), _path(place or "/"), controllers)
        if mounted.own_directory is not None:
            found.setdefault(controllers, mounted)
    return tuple(found.values())


def _own(text: str) -> dict[str, str]:
    """Return the cgroup of this process by controller, as /proc/self/cgroup says; "" stands for version 2."""
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
    """Return the nearest cgroup above our own that is ours to divide.

    Not our own: a cgroup with processes in it can pass no controller down. And a process may be moved only below a
    cgroup that is ours to write to, so that what lies elsewhere is of no use, even if it is ours.
    """
    directory = mount.own_directory
    while directory is not None and directory != mount.mount_point:
        directory = directory.parent
        if _writable(directory, "cgroup.procs", "cgroup.subtree_control"):
            return Version2(directory, pass_down(directory, frozenset(version2.USED)))
    return None


def _writable(directory: Path, *names: str) -> bool:
    return all(os.access(path, os.W_OK) for path in (directory, *(directory / name for name in names)))


def _path(text: str) -> PurePosixPath:
    return PurePosixPath(_plain(text))


def _plain(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)
