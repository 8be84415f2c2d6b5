"""Finding out, by trying, which level of isolation containers can have on this machine.

Run as `python -I -S probe.py DIRECTORY`, with the directory for containers; prints the level.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[3]))

from syncpod.kernel.tree_removal import remove_tree
from syncpod.runtime.processes.records import Level
from syncpod.runtime.root import rootfs

_TRIES = 3
"""How often a level is tried: a failure may be temporary, while a real refusal repeats at once."""


def level(directory: Path) -> Level:
    """Return the best level that works, trying each in a child process."""
    trials = (Level.NAMESPACES, Level.USER_NAMESPACES) if os.geteuid() == 0 else (Level.USER_NAMESPACES,)
    return next((trial for trial in trials if any(_works(trial, directory) for _ in range(_TRIES))), Level.PLAIN)


def _works(trial: Level, directory: Path) -> bool:
    place = Path(tempfile.mkdtemp(prefix="probe-", dir=directory))
    try:
        pid = os.fork()
        if pid == 0:
            try:
                rootfs.enter(
                    place,
                    (),
                    image="",
                    read_only=False,
                    hostname="probe",
                    user_namespace=trial is Level.USER_NAMESPACES,
                    cwd="/",
                )
                # Only exec shows whether programs run in the new root. It is a shell, because Python may be in /tmp.
                os.execv("/bin/sh", ["sh", "-c", ":"])
            finally:
                os._exit(1)
        return os.waitpid(pid, 0)[1] == 0
    finally:
        remove_tree(place)


if __name__ == "__main__":
    sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - a trial that fails is an answer, not an error
    print(level(Path(sys.argv[1])).value)  # noqa: T201
