"""Processes that outlive the command that starts them: begun in a session of their own, ended by verified identity."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from syncpod.cli.failure import BadInput

LOG_LIMIT = 16 * 1024 * 1024
"""Bytes from which a log is put aside (as ``.old``) when its process is started anew."""


@dataclass(frozen=True)
class ProcessIdentity:
    """One process and no other: ids are used again, a start time within one boot of the machine is not."""

    pid: int
    started: int
    """Clock ticks between the machine's boot and the process's start."""
    boot: str
    """Id of the machine's boot."""


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of a live process; None where there is none, or only its remains."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name stands in parentheses and may contain anything.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in ("Z", "X") else ProcessIdentity(pid, int(fields[19]), boot)


def is_running(process: ProcessIdentity) -> bool:
    """Say whether this very process still runs."""
    return identify(process.pid) == process


def end(process: ProcessIdentity, *, patience_seconds: float) -> bool:
    """Ask a process to end, and kill it when patience ends; say whether it was still there.

    A pidfd holds on to the process while its identity is verified, so that no other can be hit.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_running(process):
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGTERM)
            if not select.select([handle], [], [], patience_seconds)[0]:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                select.select([handle], [], [], patience_seconds)
        return True
    finally:
        os.close(handle)


def start_detached(
    command: Sequence[str], *, log: Path, environment: Mapping[str, str], keep: Sequence[int] = (), umask: int = -1
) -> subprocess.Popen[bytes]:
    """Start a process that Ctrl-C here does not reach, with its output in `log`; it inherits the descriptors `keep`.

    `umask` is for the files that it makes; -1 = ours. Raises BadInput where there is no such program to run.
    """
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > LOG_LIMIT:
            log.replace(log.with_name(f"{log.name}.old"))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            cwd="/",
            start_new_session=True,
            pass_fds=keep,
            umask=umask,
        )
    except OSError as error:
        raise cannot_run(command[0], error) from None
    finally:
        os.close(output)


def run_in_place(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Run a program in place of this one. Raises BadInput where there is no such program to run."""
    try:
        os.execve(command[0], list(command), environment)
    except OSError as error:
        raise cannot_run(command[0], error) from None


def cannot_run(path: str, error: OSError) -> BadInput:
    """Return the failure to run a program: this Python's, whose path may lead nowhere, or one beside it."""
    what = f"the program {path!r}" if path else "this Python, whose own path is not known,"
    return BadInput(f"{what} cannot be run: {error.strerror}; run syncpod from a complete environment")


def last_lines(log: Path, count: int) -> list[str]:
    """Return the last lines of a log, for an error; none where there is no log."""
    try:
        return log.read_text(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []
