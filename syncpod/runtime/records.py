"""What is kept on disk of one container's process, and how its parts are told apart from others.

    spec.json      what to run, written by the server; the supervisor holds a lock on it for as long as it lives
    started.json   who runs: the supervisor and the main process, written before the program runs
    exit.json      how it ended, or why it could not start
    control.sock   the supervisor's ear, there from the moment that the program runs

A process is known by its id, its start time in clock ticks and the boot's id: ids alone are used again.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from syncpod.runtime.port import Mount, ProcessSpec, User

SPEC = "spec.json"
STARTED = "started.json"
EXIT = "exit.json"
CONTROL = "control.sock"


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
    temporary = path.with_name(path.name + ".new")
    with open(temporary, "w", opener=lambda name, flags: os.open(name, flags, 0o600), encoding="utf-8") as file:
        json.dump(document, file)
    temporary.replace(path)


def read_started(directory: Path) -> Started | None:
    """Return who runs it; None before that is known."""
    document = _read(directory / STARTED)
    if document is None:
        return None
    return Started(
        document["boot_id"], Identity(**document["supervisor"]), Identity(**document["main"]), document["started_at"]
    )


def read_ended(directory: Path) -> Ended | None:
    """Return how it ended; None while it runs."""
    document = _read(directory / EXIT)
    return None if document is None else Ended(**document)


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
