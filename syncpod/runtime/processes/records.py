"""What is kept on disk of one container's process, and how its parts are told apart from others.

    spec.json      what to run, written by the server; the supervisor holds a lock on it for as long as it lives
    started.json   who runs: the supervisor and the main process, written before the program runs
    ending.json    room for that, taken before the program runs, and how the main process ended as soon as it has
    exit.json      how it ended, or why it could not start: the same file, renamed when nothing is left of the container
    control.sock   the supervisor's ear, there from the moment that the program runs

A process is known by its id, its start time in clock ticks and the boot's id: ids alone are used again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from syncpod.kernel.atomic_file import replace_file
from syncpod.runtime.port import Mount, ProcessSpec, User

SPEC = "spec.json"
STARTED = "started.json"
ENDING = "ending.json"
EXIT = "exit.json"
CONTROL = "control.sock"
_ENDING_BYTES = 4096
"""More than an end takes, with the longest sentence on why there was no start that is kept of one."""
_LONGEST_ERROR = 600
"""Characters of such a sentence; JSON may make six of each."""


class Level(Enum):
    """How much of its own a container's process gets."""

    NAMESPACES = "namespaces"
    """A root directory, mounts and a host name of its own."""
    USER_NAMESPACES = "user namespaces"
    """The same without root, in a user namespace that maps our own user to itself."""
    PLAIN = "plain"
    """The host's file system as it is; a mount is a symbolic link."""


@dataclass(frozen=True)
class Identity:
    """One process of this machine, never to be mistaken for a later one with the same id."""

    pid: int
    ticks: int
    """When it started, in clock ticks since the boot."""


@dataclass(frozen=True)
class Started:
    """Who runs a container."""

    boot_id: str
    supervisor: Identity
    main: Identity
    """Also the leader of its session. A pause's is its supervisor."""
    started_at: int
    mount_namespace: int = 0
    """The main process's own, as its inode; 0 where it has none of its own. The number is used again."""


@dataclass(frozen=True)
class Ended:
    """How it ended."""

    exit_code: int
    finished_at: int
    error: str = ""
    """Why it could not start; then nothing ever ran."""
    unknown: bool = False
    """Nobody saw the end."""


def write_record(directory: Path, name: str, record: Any) -> None:
    """Write a dataclass as JSON, whole or not at all, for nobody else to read."""
    path = directory / name
    write_json(path, dataclasses.asdict(record))


def write_json(path: Path, document: Any) -> None:
    """Write JSON, whole or not at all, for nobody else to read."""
    replace_file(path, json.dumps(document), durable=False)


def read_started(directory: Path) -> Started | None:
    """Return who runs it; None before that is known."""
    document = _read(directory / STARTED)
    if document is None:
        return None
    return Started(
        document["boot_id"],
        Identity(**document["supervisor"]),
        Identity(**document["main"]),
        document["started_at"],
        document.get("mount_namespace", 0),
    )


def read_ended(directory: Path) -> Ended | None:
    """Return how it ended; None while it runs."""
    document = _read(directory / EXIT)
    return None if document is None else Ended(**document)


def reserve_ending(directory: Path) -> int:
    """Take the room that the record of an end needs, and return the open file: a disk may be full by then.

    Raises OSError.
    """
    descriptor = os.open(directory / ENDING, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    if os.write(descriptor, b" " * _ENDING_BYTES) < _ENDING_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return descriptor


def note_ending(descriptor: int, ended: Ended) -> None:
    """Write how it ended into the room that was taken for it. Raises OSError."""
    os.pwrite(descriptor, format_ended(ended).ljust(_ENDING_BYTES), 0)


def publish_ending(directory: Path) -> None:
    """Make what was noted the record of the end. Raises OSError."""
    (directory / ENDING).rename(directory / EXIT)


def read_ending(directory: Path) -> Ended | None:
    """Return how the main process ended, where its supervisor did not live to see the end of all it started."""
    with contextlib.suppress(FileNotFoundError):
        noted = (directory / ENDING).read_bytes()
        return parse_ended(noted) if noted.strip() else None
    return None


def format_ended(ended: Ended) -> bytes:
    """Return an end as JSON, for a packet or a file."""
    return json.dumps(dataclasses.asdict(dataclasses.replace(ended, error=ended.error[:_LONGEST_ERROR]))).encode()


def parse_ended(text: bytes) -> Ended:
    """Return the end that `format_ended` wrote. Raises ValueError."""
    return Ended(**json.loads(text))


_FIELDS = frozenset(field.name for field in dataclasses.fields(ProcessSpec))


def read_spec(directory: Path) -> tuple[ProcessSpec, Level] | None:
    """Return what the process was to be."""
    document = _read(directory / SPEC)
    return None if document is None else parse_spec(document)


def parse_spec(document: dict[str, Any]) -> tuple[ProcessSpec, Level]:
    """Return the specification that `write_spec` wrote."""
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in document.items() if key in _FIELDS
    }
    fields["environment"] = tuple((name, value) for name, value in fields["environment"])
    fields["mounts"] = tuple(Mount(**mount) for mount in fields["mounts"])
    if fields["user"] is not None:
        fields["user"] = User(**{**fields["user"], "groups": tuple(fields["user"]["groups"])})
    return ProcessSpec(**fields), Level(document["level"])


def write_spec(directory: Path, spec: ProcessSpec, level: Level) -> None:
    """Write what the process is to be."""
    write_json(directory / SPEC, {**dataclasses.asdict(spec), "level": level.value})


def boot_id() -> str:
    """Return the id of this machine's present boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True)
class Stat:
    """A little of /proc/<pid>/stat."""

    state: str
    parent: int
    session: int
    ticks: int


def stat_of(pid: int) -> Stat | None:
    """Return what the kernel says of a process; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in brackets, and may hold anything.
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def identity_of(pid: int) -> Identity:
    """Return who the process is. Raises ProcessLookupError when it is gone."""
    stat = stat_of(pid)
    if stat is None:
        raise ProcessLookupError(pid)
    return Identity(pid, stat.ticks)


def open_process(identity: Identity) -> int | None:
    """Return a pidfd of exactly that process; None when it is gone."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    stat = stat_of(identity.pid)
    if stat is None or stat.ticks != identity.ticks:
        os.close(descriptor)
        return None
    return descriptor


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
