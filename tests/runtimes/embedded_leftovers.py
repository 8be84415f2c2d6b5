"""Clearing away what one embedded runtime left on the machine, alive or dead: from its directory alone.

Its server and its supervisors have the directory among their arguments. What a container started is found below its
supervisor, or, where that was killed, by the mounts that it sees or by its cgroup.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.runtimes.leftovers import CGROUPS, Names, remove_cgroup
from tests.runtimes.processes import Process, kill, processes, with_descendants


def clear(directory: Path) -> None:
    """End the processes and remove the cgroups of the embedded runtime in `directory`, and empty it."""
    parent = Names.of(directory).cgroup_parent
    while True:
        everything = processes()
        found = {*_by_arguments(directory, everything), *_by_mounts(directory, everything), *_by_cgroup(parent)}
        found.discard(os.getpid())
        if not found:
            break
        kill(with_descendants(found, everything))
    if os.geteuid() == 0:
        remove_cgroup(parent)
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != "lock":
            entry.unlink()


def supervisors(directory: Path) -> tuple[Process, ...]:
    """The live supervisors of the runtime in `directory`."""
    return tuple(
        process for process in processes() if _has_part_of(directory, process) and "syncpod.runtime" not in process.argv
    )


def _by_arguments(directory: Path, everything: tuple[Process, ...]) -> Iterator[int]:
    return (process.pid for process in everything if _has_part_of(directory, process))


def _has_part_of(directory: Path, process: Process) -> bool:
    """Say whether it is one of the runtime's own: a Python, with something below the directory as an argument."""
    ours = any(argument.startswith(f"{directory}/state") for argument in process.argv)
    return ours and process.program.startswith("python")


def _by_mounts(directory: Path, everything: tuple[Process, ...]) -> Iterator[int]:
    """Those whose root has layers in the directory."""
    own = _namespace("self")
    for process in everything:
        try:
            if _namespace(str(process.pid)) != own:
                mounts = Path(f"/proc/{process.pid}/mountinfo").read_text(errors="replace")
                if f"{directory}/state" in mounts:
                    yield process.pid
        except OSError:
            continue  # it ended meanwhile, or belongs to somebody else


def _namespace(process: str) -> str:
    return str(Path(f"/proc/{process}/ns/mnt").readlink())


def _by_cgroup(parent: str) -> Iterator[int]:
    for procs in (*CGROUPS.glob(f"{parent.strip('/')}/**/cgroup.procs"), *CGROUPS.glob(f"*{parent}/**/cgroup.procs")):
        yield from map(int, procs.read_text().split())
