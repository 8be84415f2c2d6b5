"""Finds out, by trying, which level of isolation containers can have on this machine.

Run as `python -I -S probe.py DIRECTORY`, with the directory for containers. It prints the level, and on a second line
the reason why mount namespaces do not work; that line is empty if they do.
"""

from __future__ import annotations

import os
import select
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[3]))

from syncpod.kernel.tree_removal import remove_tree
from syncpod.runtime.port import StartFailed
from syncpod.runtime.processes.records import Level
from syncpod.runtime.root import rootfs

_TRIES = 3
"""The number of tries of a level, since a failure may be temporary."""


def level(directory: Path) -> tuple[Level, str]:
    """Return the best level that works, and the reason why mount namespaces do not ("" if they do).

    Each level is tried in a child process.
    """
    trials = (Level.NAMESPACES, Level.USER_NAMESPACES) if os.geteuid() == 0 else (Level.USER_NAMESPACES,)
    problem = ""
    for trial in trials:
        for _ in range(_TRIES):
            problem = _try(trial, directory)
            if not problem:
                return trial, ""
    return Level.PLAIN, problem


def _try(trial: Level, directory: Path) -> str:
    """Let a child process enter a root of its own; return the reason why that fails, "" if it works."""
    place = Path(tempfile.mkdtemp(prefix="probe-", dir=directory))
    reading, writing = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            _enter_and_exit(trial, place, writing)
        os.close(writing)
        with open(reading, "rb") as pipe:  # noqa: PTH123 - the pipe ends with the child or at its exec
            said = pipe.read().decode(errors="replace")
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return "" if code == 0 else said or f"the trial ended with {code}"
    finally:
        remove_tree(place)


def _enter_and_exit(trial: Level, place: Path, writing: int) -> NoReturn:
    """Run a program in a root of its own, or write why that fails."""
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
        # Only exec shows whether programs run in the new root. The program is a shell, because Python may be in /tmp.
        os.execv("/bin/sh", ["sh", "-c", ":"])
    except StartFailed as failure:
        sentence = str(failure)
    except OSError as error:
        sentence = f"{error.filename or 'the kernel'}: {error.strerror}"
    except BaseException as error:  # noqa: BLE001 - the child must never return into its parent's code
        sentence = repr(error)
    os.write(writing, sentence.encode(errors="replace")[: select.PIPE_BUF])
    os._exit(1)


if __name__ == "__main__":
    sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - a failed trial is an answer and no error
    found, why = level(Path(sys.argv[1]))
    print(f"{found.value}\n{' '.join(why.split())}")  # noqa: T201
