"""The files of one container's process, and how its processes are identified.

    spec.json      the specification, written by the server; the supervisor holds a lock on it for as long as it lives
    started.json   the supervisor and the main process, written before the program runs
    ending.json    space reserved before the program runs; later, the end of the main process
    exit.json      the end, or why the start failed: ending.json, renamed when no process of the container is left
    control.sock   the supervisor's socket, from the moment that the program runs

A process is identified by its pid, its start time in clock ticks and the boot's id, because pids are reused.
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
from syncpod.kernel.procfs import process_stat
from syncpod.runtime.port import Mount, ProcessSpec, User

SPEC = "spec.json"
STARTED = "started.json"
ENDING = "ending.json"
EXIT = "exit.json"
CONTROL = "control.sock"
_ENDING_BYTES = 4096
"""Bytes of the reserved space: more than the record of an end needs, even with the longest sentence on a failed
start."""
_LONGEST_ERROR = 600
"""Maximum characters of the sentence on a failed start; in JSON a character may take six bytes."""


class Level(Enum):
    """The isolation of a container's process."""

    NAMESPACES = "namespaces"
    """The process has its own root directory, mounts and host name."""
    USER_NAMESPACES = "user namespaces"
    """As NAMESPACES but without root, in a user namespace that maps our user to itself."""
    PLAIN = "plain"
    """The host's file system; mounts are symbolic links."""


@dataclass(frozen=True)
class Identity:
    """One process of this machine, distinguished from later ones with the same pid."""

    pid: int
    ticks: int
    """When it started, in clock ticks since the boot."""


@dataclass(frozen=True)
class Started:
    """The processes of a container."""

    boot_id: str
    supervisor: Identity
    main: Identity
    """The main process, which leads its session. A pause is its own supervisor."""
    started_at: int
    mount_namespace: int = 0
    """The inode of the main process's mount namespace; 0 if it has none of its own. Inodes are reused."""


@dataclass(frozen=True)
class Ended:
    """How a container's process ended."""

    exit_code: int
    finished_at: int
    error: str = ""
    """The reason why the process could not start; "" if it ran."""
    unknown: bool = False
    """True if the end was not observed."""


def write_record(directory: Path, name: str, record: Any) -> None:
    """Write a dataclass as JSON atomically, readable by this user only."""
    path = directory / name
    write_json(path, dataclasses.asdict(record))


def write_json(path: Path, document: Any) -> None:
    """Write JSON atomically, readable by this user only."""
    replace_file(path, json.dumps(document), durable=False)


def read_started(directory: Path) -> Started | None:
    """Return the container's processes; None before they are recorded."""
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
    """Return how the container's process ended; None while it runs."""
    document = _read(directory / EXIT)
    return None if document is None else Ended(**document)


def reserve_ending(directory: Path) -> int:
    """Reserve disk space for the record of an end, because the disk may be full at the end; return the open file.

    Raises OSError.
    """
    descriptor = os.open(directory / ENDING, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    if os.write(descriptor, b" " * _ENDING_BYTES) < _ENDING_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return descriptor


def note_ending(descriptor: int, ended: Ended) -> None:
    """Write the end into the reserved space. Raises OSError."""
    os.pwrite(descriptor, format_ended(ended).ljust(_ENDING_BYTES), 0)


def publish_ending(directory: Path) -> None:
    """Make the written end final. Raises OSError."""
    (directory / ENDING).rename(directory / EXIT)


def read_ending(directory: Path) -> Ended | None:
    """Return the main process's end, if the supervisor has noted it but died before the other processes had ended."""
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
    """Read the specification of a process."""
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
    """Write the specification of a process."""
    write_json(directory / SPEC, {**dataclasses.asdict(spec), "level": level.value})


def identity_of(pid: int) -> Identity:
    """Return the identity of a process. Raises ProcessLookupError if it is gone."""
    stat = process_stat(pid)
    if stat is None:
        raise ProcessLookupError(pid)
    return Identity(pid, stat.start_ticks)


def open_process(identity: Identity) -> int | None:
    """Return a pidfd of exactly this process; None if it is gone."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    stat = process_stat(identity.pid)
    if stat is None or stat.start_ticks != identity.ticks:
        os.close(descriptor)
        return None
    return descriptor


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
