"""Directories that belong to one live process: the process that holds the lock owns everything in them.

The kernel releases the lock when its holder dies. So a directory whose lock is free was left by an interrupted run, and
the next run removes its leftovers.

Several runs, and several processes of one run, share the home. Only one at a time lists and removes directories: in a
directory that is being removed, the lock file is removed early, so it would look abandoned.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.runtimes import in_memory

_NAME = f"syncpod-tests-{os.geteuid()}" if os.geteuid() else "syncpod-tests"
HOME = Path("/tmp", _NAME)
"""The directory of a user's test instances. It is short, since a socket's path has at most 107 bytes."""
MEMORY_HOME = in_memory.MEMORY / _NAME
"""The directory of instances of `IN_MEMORY`, on a machine with room for them."""
IN_MEMORY = ("embedded", "temporal")
"""The kinds that make many small files. The others keep images and their layers on a disk, as on a node."""
_uses_memory = False


class Claimed(Exception):
    """Another live process owns the directory."""


class Claim:
    """An exclusive lock of `directory`, which is made if missing, until `remove` or the end of this process.

    Raises `Claimed` where another process has it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise Claimed(f"{directory} belongs to a process that still runs") from None

    def remove(self) -> None:
        """Remove the directory with all its contents, and release the lock."""
        with _registry():
            shutil.rmtree(self.directory)
        os.close(self._lock)


def home(kind: str) -> Path:
    """The directory of instances of `kind`: on disk, or in memory for `IN_MEMORY` in tests after `use_memory`."""
    return MEMORY_HOME if kind in IN_MEMORY and _uses_memory else HOME


def use_memory() -> None:
    """Put instances of `IN_MEMORY` in memory from now on, if there is room. Not for benchmarks: these need a disk."""
    global _uses_memory  # one for the process, set before anything is started
    _uses_memory = in_memory.has_room()


def fresh(kind: str) -> Claim:
    """A claim on a new directory for an instance of `kind`."""
    with _registry():
        return Claim(home(kind) / f"{kind}-{secrets.token_hex(3)}")


def abandoned(kind: str) -> tuple[Claim, ...]:
    """Claims on the directories of `kind` that no live process holds."""
    claims = []
    with _registry():
        for place in (HOME, MEMORY_HOME):
            for directory in sorted(place.glob(f"{kind}-*")):
                with contextlib.suppress(Claimed):
                    claims.append(Claim(directory))
    return tuple(claims)


@contextlib.contextmanager
def _registry() -> Iterator[None]:
    """Exclude other processes, since a directory that is made and not yet locked looks abandoned."""
    HOME.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
