"""The notes that containers write about themselves: the lines of `witness.c`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Note:
    """One line: what happened, when (`at`, in nanoseconds since the machine booted), and to which instance."""

    what: str
    """START, TERM, PRESTOP or END."""
    at: int
    uid: str
    container: str
    id: str
    """The instance's id in the runtime."""
    sandbox: str
    pid: int
    """The process id in the container's own namespace."""
    restart: int
    said: str
    """For a START, whether its lock was `free` or `held`; for an END, the exit code."""


def parse(lines: Iterable[str]) -> tuple[Note, ...]:
    """Parse lines; return the notes, oldest first. Raises ValueError for a line that no witness writes."""
    notes = []
    for line in lines:
        what, at, uid, container, id_, sandbox, pid, restart, said = line.split()
        notes.append(Note(what, int(at), uid, container, id_, sandbox, int(pid), int(restart), said))
    return tuple(sorted(notes, key=lambda note: note.at))


def read(place: Path) -> tuple[Note, ...]:
    """Read the notes of all pods in a directory, oldest first."""
    found = [note for path in place.glob("*.log") for note in read_one(path)]
    return tuple(sorted(found, key=lambda note: note.at))


def read_one(path: Path) -> tuple[Note, ...]:
    """Read a pod's notes, perhaps none. An incomplete last line is ignored: it is still being written."""
    text = path.read_text() if path.exists() else ""
    return parse(text[: text.rfind("\n") + 1].splitlines())
