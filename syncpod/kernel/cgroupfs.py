"""Cgroups of both versions, as files: finds their hierarchies, and makes, kills and removes cgroups.

Supervisors import this, so it uses only the standard library.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from syncpod.kernel.mountinfo import MOUNTINFO, Mount, read_mounts

_WHOLE = re.compile(r"/|(/\.\.)+")
"""Matches the root of a mount that shows its hierarchy from the top. Within a cgroup namespace that root is ``/..``,
``/../..`` and so on."""
_REMOVAL_TRIES = 7
_FIRST_WAIT_SECONDS = 0.01
KEPT_SECONDS: Final = 10.0
"""Seconds for which the list of hierarchies is cached; a mount or unmount may go unnoticed meanwhile."""
_HELD = 256
"""Maximum number of pidfds that are open at once: a process may have 1024 descriptors, and fewer may be free."""


class CgroupBusy(OSError):
    """A cgroup cannot be removed because it still holds processes. The text names them; `filename` is the directory."""


@dataclass(frozen=True)
class Hierarchy:
    """One mount of a cgroup hierarchy."""

    path: Path
    version: int
    controllers: frozenset[str]
    """The mount's controllers in version 1. Empty in version 2, where each cgroup lists its controllers in a file."""
    shown: str = "/"
    """The cgroup that the mount point shows."""


def hierarchies(mounts: Iterable[Mount]) -> tuple[Hierarchy, ...]:
    """Return every visible mount of a cgroup hierarchy: the topmost at each mount point."""
    found: dict[str, Hierarchy] = {}
    for mount in mounts:
        if mount.file_system in ("cgroup", "cgroup2"):
            version = 1 if mount.file_system == "cgroup" else 2
            controllers = frozenset(mount.options) - {"rw", "ro"} if version == 1 else frozenset[str]()
            found[mount.mount_point] = Hierarchy(Path(mount.mount_point), version, controllers, mount.root)
    return tuple(found.values())


def whole_hierarchies(mounts: Iterable[Mount]) -> tuple[Hierarchy, ...]:
    """Return every hierarchy that is mounted from its root.

    Version 1 has a hierarchy for each controller, or for a group of controllers.
    """
    return tuple(each for each in hierarchies(mounts) if _WHOLE.fullmatch(each.shown))


def mounted_hierarchies(mountinfo: Path = MOUNTINFO) -> tuple[Hierarchy, ...]:
    """Return every hierarchy that a mountinfo file lists as mounted from its root. Blocks. Raises OSError.

    A hierarchy below a directory that this process may not enter is left out: it is in another file tree, such as a
    container's. The result for this process's own file is cached for `KEPT_SECONDS`: each start or end of a pod reads
    it seven times, and each running pod makes the file longer.
    """
    if mountinfo != MOUNTINFO:
        return _listed(mountinfo)
    return _kept_hierarchies(int(time.monotonic() / KEPT_SECONDS))


@lru_cache(maxsize=1)
def _kept_hierarchies(_period: int) -> tuple[Hierarchy, ...]:
    return _listed(MOUNTINFO)


def _listed(mountinfo: Path) -> tuple[Hierarchy, ...]:
    found = whole_hierarchies(read_mounts(mountinfo, file_system="cgroup"))
    return tuple(each for each in found if _may_enter(each.path))


def _may_enter(directory: Path) -> bool:
    try:
        directory.stat()
    except PermissionError:
        return False
    except OSError:
        pass  # using the directory will raise the error, with the file's name
    return True


def read(file: Path) -> str | None:
    """Return a file's text without its last newline; None if the cgroup, or this file of it, does not exist.

    Raises OSError.
    """
    try:
        return file.read_text(errors="surrogateescape").rstrip("\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        # Open files of a removed cgroup return ENODEV.
        if error.errno == errno.ENODEV:
            return None
        raise OSError(error.errno, error.strerror, str(file)) from error


def write(file: Path, value: str) -> None:
    """Write one value into a file of a cgroup; a file that does not exist is never created. Raises OSError."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error
    finally:
        os.close(descriptor)


def make(directory: Path, *, mark: str = "") -> bool:
    """Make a cgroup; return False if it existed.

    Raises OSError: FileNotFoundError if it existed and has just been removed. `mark` is an extended attribute
    (`user.…`) that names its maker, for :func:`remove_marked`. Kernels before 5.7 have no such attributes on cgroups,
    so :func:`remove_marked` removes nothing there.
    """
    try:
        directory.mkdir(mode=0o755)
    except FileExistsError:
        if not stat.S_ISDIR(directory.stat().st_mode):
            raise
        return False
    if mark:
        with contextlib.suppress(OSError):
            os.setxattr(directory, mark, b"1")
    return True


def remove_marked(directory: Path, top: Path, mark: str) -> None:
    """Remove a cgroup and its ancestors below `top`, as long as they carry the mark and are empty.

    Stops at the first cgroup that lacks the mark or is in use; a missing cgroup is skipped. Raises OSError.
    """
    for place in (directory, *directory.parents):
        if place == top:
            return
        try:
            if not _is_marked(place, mark):
                return
            place.rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
                return
            raise


def remove_tree(directory: Path) -> None:
    """Remove a cgroup and all below it, from the bottom up; do nothing if it is gone. Blocks up to 0.7 s for each.

    The kernel refuses to remove a cgroup with processes in it. Raises :class:`CgroupBusy`, OSError.
    """
    for found, _, _ in os.walk(directory, topdown=False):
        _remove_patiently(Path(found))


def processes_of(cgroup: Path) -> frozenset[int]:
    """Return the processes of the cgroup itself; none if it is gone or threaded. Raises OSError.

    0 stands for a process that is invisible in this pid namespace.
    """
    try:
        return frozenset(map(int, (read(cgroup / "cgroup.procs") or "").split()))
    except OSError as error:
        # A threaded cgroup's processes are listed by the one above it.
        if error.errno != errno.EOPNOTSUPP:
            raise
        return frozenset()


def processes_below(cgroup: Path) -> tuple[int, ...]:
    """Return all processes in a cgroup and below it, except those that are invisible in this pid namespace.

    Raises OSError.
    """
    found: dict[int, None] = {}
    for directory, _, _ in os.walk(cgroup):
        found |= dict.fromkeys(sorted(processes_of(Path(directory)) - {0}))
    return tuple(found)


def kill_processes(cgroup: Path) -> tuple[int, ...]:
    """Send SIGKILL to each process in a cgroup and below it; return these processes. Raises OSError.

    A process may end at any moment, and another may then get its id. So each process is first held by a pidfd, and must
    then still be in the cgroup.
    """
    listed = processes_below(cgroup)
    return tuple(pid for at in range(0, len(listed), _HELD) for pid in _kill_some(cgroup, listed[at : at + _HELD]))


def _kill_some(cgroup: Path, pids: tuple[int, ...]) -> tuple[int, ...]:
    held: dict[int, int] = {}
    try:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                held[pid] = os.pidfd_open(pid)
        killed = []
        for pid in held.keys() & set(processes_below(cgroup)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(held[pid], signal.SIGKILL)
                killed.append(pid)
        return tuple(killed)
    finally:
        for descriptor in held.values():
            os.close(descriptor)


def _remove_patiently(directory: Path) -> None:
    wait = _FIRST_WAIT_SECONDS
    for tries_left in reversed(range(_REMOVAL_TRIES)):
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            if not tries_left:
                raise CgroupBusy(error.errno, f"still in use by {_users(directory)}", str(directory)) from error
            # A process that has just exited keeps its cgroup busy for a moment.
            time.sleep(wait)
            wait *= 2
        else:
            return


def _users(cgroup: Path) -> str:
    try:
        processes = sorted(processes_of(cgroup))
    except OSError as error:
        return f"processes that cannot be read ({error.strerror})"
    if not processes:
        return "a cgroup below it"
    if processes == [0]:
        return "processes that cannot be seen from here"
    return f"processes {', '.join(str(pid) for pid in processes if pid)}"


def _is_marked(directory: Path, mark: str) -> bool:
    try:
        os.getxattr(directory, mark)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    return True
