"""What both versions of cgroups share: their files, their directories, and what is read from them."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from dataclasses import dataclass
from pathlib import Path

_MADE_BY_US = "user.syncpod.made"
_TRIES = 7
_FIRST_WAIT_SECONDS = 0.01


class CgroupRefused(Exception):
    """A cgroup cannot be made, changed or removed as asked; the text is one sentence."""


@dataclass(frozen=True)
class Pressure:
    """How long work waited for something scarce, as the kernel's pressure files say: one of their two lines."""

    total_nanoseconds: int
    average_10_seconds: float
    """Per cent of the last 10 seconds."""
    average_60_seconds: float
    average_300_seconds: float


@dataclass(frozen=True)
class Pressures:
    """Waiting for one thing: `some` counts while any task waits, `full` while all that have work do."""

    some: Pressure
    full: Pressure


@dataclass(frozen=True)
class Memory:
    """Memory of a cgroup and of all below it, in bytes."""

    usage: int
    """All of it, cache included."""
    working_set: int
    """What eviction goes by: usage without the files' pages that were not used lately."""
    limit: int | None
    resident: int
    """Anonymous: stacks, heaps, private maps."""
    page_faults: int
    major_page_faults: int
    swap_usage: int | None
    """None where swap is not accounted for."""
    swap_limit: int | None
    """None: no limit, or not accounted for."""

    @property
    def available(self) -> int | None:
        """What is left of the limit; None without one."""
        return None if self.limit is None else max(0, self.limit - self.working_set)

    @property
    def swap_available(self) -> int | None:
        """What is left of the limit on swap; None without one."""
        return None if self.swap_limit is None else max(0, self.swap_limit - (self.swap_usage or 0))


def read(file: Path) -> str | None:
    """Return a file's text without the line's end; None where the cgroup, or this file of it, is not there."""
    try:
        return file.read_text().rstrip("\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        # A cgroup that is being removed answers ENODEV on files that were opened before.
        if error.errno == errno.ENODEV:
            return None
        raise


def read_number(file: Path) -> int | None:
    """Return the number a file holds; None where it is not there, or says `max`."""
    text = read(file)
    return None if text is None or text == "max" else int(text)


def read_table(file: Path) -> dict[str, int]:
    """Return a file of lines `name number`; empty where it is not there."""
    return {name: int(number) for name, number in (line.split(maxsplit=1) for line in (read(file) or "").splitlines())}


def write(file: Path, value: str) -> None:
    """Write one value into a file of a cgroup. Raises OSError; a file that is not there is never made."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def set_value(what: str, file: Path, value: str) -> None:
    """Write a value that was asked for by the name `what`. Raises :class:`CgroupRefused`."""
    try:
        write(file, value)
    except OSError as error:
        raise CgroupRefused(f"{what}: {file.name} cannot be set to {value}: {_reason(error)}") from error


def make_directory(directory: Path, *, marked: bool) -> bool:
    """Make a cgroup; False if it was there. A marked one is ours to remove, even for a later server, once it is empty.

    Raises OSError.
    """
    try:
        directory.mkdir(mode=0o755)
    except FileExistsError:
        if not directory.is_dir():
            raise
        return False
    if marked:
        # Kernels before 5.7 know no such attribute; the directory then stays, as runtimes generally leave it.
        with contextlib.suppress(OSError):
            os.setxattr(directory, _MADE_BY_US, b"1")
    return True


def remove_tree(directory: Path) -> None:
    """Remove a cgroup and those that its processes made in it, from the bottom up; none is fine. Blocks up to 0.7 s.

    Raises :class:`CgroupRefused` naming the processes that are still in it.
    """
    for found, _, _ in os.walk(directory, topdown=False):
        _remove_patiently(Path(found))


def remove_marked(directory: Path, base: Path) -> None:
    """Remove a cgroup and those above it, up to `base`, that were made with a mark and hold nothing any more.

    One that is gone already is passed over. Raises OSError.
    """
    for place in (directory, *directory.parents):
        if place == base:
            return
        try:
            if not _is_marked(place):
                return
            place.rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
                return
            raise


def pressures(file: Path) -> Pressures | None:
    """Return what a pressure file says; None where the kernel keeps none."""
    try:
        text = read(file)
    except OSError as error:
        # Pressure can be switched off, for the machine or for a cgroup; the file stays.
        if error.errno == errno.EOPNOTSUPP:
            return None
        raise
    return parse_pressures(text) if text else None


def parse_pressures(text: str) -> Pressures:
    """Read `some avg10=… avg60=… avg300=… total=…` and the same for `full`, the total in microseconds."""
    lines = {}
    for line in text.splitlines():
        kind, *fields = line.split()
        values = dict(field.split("=", 1) for field in fields)
        lines[kind] = Pressure(
            int(values["total"]) * 1000, float(values["avg10"]), float(values["avg60"]), float(values["avg300"])
        )
    nothing = Pressure(0, 0.0, 0.0, 0.0)
    return Pressures(some=lines.get("some", nothing), full=lines.get("full", nothing))


def processes_in(directory: Path) -> tuple[int, ...]:
    """Return the ids of all processes in a cgroup and below it; none if it is gone."""
    found: dict[int, None] = {}
    for below, _, _ in os.walk(directory):
        try:
            text = read(Path(below, "cgroup.procs"))
        except OSError as error:
            # A threaded cgroup's processes are listed by the one above it.
            if error.errno != errno.EOPNOTSUPP:
                raise
            continue
        # 0 stands for a process that this pid namespace cannot see.
        found |= {int(line): None for line in (text or "").split() if line != "0"}
    return tuple(found)


def _remove_patiently(directory: Path) -> None:
    wait = _FIRST_WAIT_SECONDS
    for tries_left in reversed(range(_TRIES)):
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise CgroupRefused(f"{directory}: cannot be removed: {_reason(error)}") from error
            if not tries_left:
                users = ", ".join(map(str, processes_in(directory))) or "that cannot be seen"
                raise CgroupRefused(f"{directory}: cannot be removed, it holds processes {users}") from error
            # A process that was just killed keeps its cgroup busy for a moment.
            time.sleep(wait)
            wait *= 2
        else:
            return


def _is_marked(directory: Path) -> bool:
    try:
        os.getxattr(directory, _MADE_BY_US)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    return True


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
