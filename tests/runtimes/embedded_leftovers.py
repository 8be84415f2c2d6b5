"""Removes everything that one embedded runtime left on the machine, alive or dead, found by its directory only.

The server has the directory in its arguments, each supervisor has a file in it open, and a container's processes are
descendants of its supervisor. If a supervisor was killed, they are found by the directory's record of the main process,
by their mounts, or by their cgroup.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from tests.runtimes.leftovers import CGROUPS, Names, remove_cgroup
from tests.runtimes.processes import Process, kill, processes, with_descendants


def clear(directory: Path) -> None:
    """End the processes and remove the cgroups of the embedded runtime in `directory`, and empty it."""
    parent = Names.of(directory).cgroup_parent
    cgroups = {parent, *_cgroups(directory)}
    while True:
        everything = processes()
        found = {
            *_servers(directory, everything),
            *(supervisor.pid for supervisor in supervisors(directory)),
            *_main_processes(directory),
            *_by_mounts(directory, everything),
            *(pid for cgroup in cgroups for pid in _by_cgroup(cgroup)),
        } & {process.pid for process in everything}
        if not found:
            break
        kill(with_descendants(found, everything))
    if os.geteuid() == 0:
        for cgroup in cgroups:
            remove_cgroup(cgroup)
        for cgroup in cgroups:
            _remove_made_above(cgroup)
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            _open_to_us(entry)
            shutil.rmtree(entry)
        elif entry.name != "lock":
            entry.unlink()


def _open_to_us(directory: Path) -> None:
    """Set permissions of overlayfs's work directories, which even their owner cannot enter."""
    for place, names, _ in os.walk(directory):
        for path in (Path(place, name) for name in names):
            if stat.S_IMODE(path.lstat().st_mode) == 0:
                path.chmod(0o700)


def supervisors(directory: Path, which: str = "*/*") -> tuple[Process, ...]:
    """The live supervisors of the runtime in `directory`, found by their open specification.

    `which` is a pattern of their places in its state directory: `containers/<id>`.
    """
    return tuple(
        process for process in processes() if any(_opened(process.pid, f"{directory}/state/{which}/*/spec.json"))
    )


def _opened(pid: int, pattern: str) -> Iterator[bool]:
    """For each file that a process has open, yield whether its path matches; nothing for another user's process."""
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                path = str(descriptor.readlink()).removesuffix(" (deleted)")
                yield fnmatch.fnmatchcase(path, pattern)


def _cgroups(directory: Path) -> Iterator[str]:
    """The cgroups of its containers, by their records, which begin with a line of JSON."""
    for record in directory.glob("state/containers/*/record"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            cgroup = json.loads(record.read_bytes().partition(b"\n")[0])["cgroup"]
            if cgroup.endswith(f"/{record.parent.name}"):
                yield cgroup


def _remove_made_above(cgroup: str) -> None:
    """Remove empty parent cgroups that the runtime made and marked."""
    for place in (CGROUPS, *(entry for entry in CGROUPS.iterdir() if entry.is_dir())):
        with contextlib.suppress(OSError):  # none there, none of the runtime's, or in use
            for above in (place / cgroup.strip("/")).parents:
                os.getxattr(above, "user.syncpod.made")
                above.rmdir()


def _servers(directory: Path, everything: tuple[Process, ...]) -> Iterator[int]:
    for process in everything:
        if "syncpod.runtime" in process.argv and f"{directory}/state" in process.argv:
            yield process.pid


def _main_processes(directory: Path) -> Iterator[int]:
    """The running main processes, identified by id and start time in clock ticks since the boot."""
    for record in directory.glob("state/*/*/*/started.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            main = json.loads(record.read_text())["main"]
            # The second field, the program's name in brackets, may hold anything.
            if int(Path(f"/proc/{main['pid']}/stat").read_text().rpartition(")")[2].split()[19]) == main["ticks"]:
                yield main["pid"]


def _by_mounts(directory: Path, everything: tuple[Process, ...]) -> Iterator[int]:
    """The processes whose root mount has layers in the directory."""
    own = _namespace("self")
    for process in everything:
        try:
            if _namespace(str(process.pid)) != own:
                mounts = Path(f"/proc/{process.pid}/mountinfo").read_text(errors="replace")
                if f"{directory}/state" in mounts:
                    yield process.pid
        except OSError:
            continue  # it ended meanwhile, or belongs to another user


def _namespace(process: str) -> str:
    return str(Path(f"/proc/{process}/ns/mnt").readlink())


def _by_cgroup(parent: str) -> Iterator[int]:
    for procs in (*CGROUPS.glob(f"{parent.strip('/')}/**/cgroup.procs"), *CGROUPS.glob(f"*{parent}/**/cgroup.procs")):
        yield from map(int, procs.read_text().split())
