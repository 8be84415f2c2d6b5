"""Processes of this machine: daemons of a test, and others, found by their exact arguments and ended by their ids."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.patience import PATIENCE


@dataclass(frozen=True)
class Process:
    """A live process (a zombie is none): its id, its parent's, and its arguments."""

    pid: int
    parent: int
    argv: tuple[str, ...]

    @property
    def program(self) -> str:
        """The last part of the first argument."""
        return Path(self.argv[0]).name


def processes() -> tuple[Process, ...]:
    """All processes on this machine now."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            argv = (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        if state not in "ZX":
            found.append(Process(int(entry.name), int(parent), tuple(os.fsdecode(part) for part in argv)))
    return tuple(found)


def with_descendants(roots: Iterable[int], everything: Iterable[Process]) -> tuple[int, ...]:
    """The ids of `roots` and of all their descendants in `everything`, the deepest first."""
    children: dict[int, list[int]] = {}
    for process in everything:
        children.setdefault(process.parent, []).append(process.pid)
    ordered = list(roots)
    for pid in ordered:
        ordered.extend(children.get(pid, ()))
    return tuple(dict.fromkeys(reversed(ordered)))


def kill(pids: Iterable[int], *, patience: float = PATIENCE) -> None:
    """Kill these processes and wait until none of them runs; raises TimeoutError after `patience` seconds."""
    waiting = set(pids)
    for pid in waiting:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + patience
    while waiting := waiting & {process.pid for process in processes()}:
        if time.monotonic() > deadline:
            raise TimeoutError(f"still running after SIGKILL: {sorted(waiting)}")
        time.sleep(0.02)


class Closing:
    """A part of a test that is closed at the end of a `with` block."""

    def close(self) -> None:
        """End it, and remove every trace of it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Daemon(Closing):
    """A daemon that a test starts, kills, and starts again."""

    _process: subprocess.Popen[bytes] | None = None
    """None = it does not run."""

    def start(self) -> None:
        """Start it, and wait until it serves."""
        raise NotImplementedError

    def kill(self) -> None:
        """SIGKILL it, if it runs; what it has started lives on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """SIGKILL it, and start it again."""
        self.kill()
        self.start()
