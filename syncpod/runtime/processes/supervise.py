"""A supervisor's start, in the forked process: claim the container, then become its supervisor or pause."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import time
import traceback
from pathlib import Path
from typing import NoReturn

from syncpod.kernel.procfs import boot_id
from syncpod.runtime.port import ProcessSpec
from syncpod.runtime.processes import launch
from syncpod.runtime.processes.packets import Word
from syncpod.runtime.processes.records import (
    EXIT,
    SPEC,
    STARTED,
    Ended,
    Started,
    identity_of,
    parse_spec,
    write_record,
)
from syncpod.runtime.processes.supervisor import Supervisor, show_role


def supervise(directory: Path, line: socket.socket) -> NoReturn:
    """Run the container whose specification is in `directory`, and exit after its end. Never returns.

    Does nothing if the specification is locked or no longer in place: a later server takes this lock, too, to withdraw
    a specification that was never started.
    """
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        document = _claim(directory)
        if document is not None:
            spec, level = parse_spec(document)
            if spec.arguments:
                Supervisor(directory, spec, level, line).run()
            else:
                _pause(directory, spec, line)
    except BaseException:  # noqa: BLE001 - nobody above a forked process could report this
        (directory / "supervisor.log").write_text(traceback.format_exc())
    finally:
        os._exit(1)


def _claim(directory: Path) -> dict[str, object] | None:
    """Lock the specification for the life of this process, and return it; None if this process must not run it."""
    try:
        descriptor = os.open(directory / SPEC, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if (directory / SPEC).stat().st_ino != os.fstat(descriptor).st_ino:
            return None
    except (FileNotFoundError, BlockingIOError):
        return None
    if (directory / STARTED).exists() or (directory / EXIT).exists():
        return None
    with open(os.dup(descriptor), encoding="utf-8") as file:  # noqa: PTH123
        document: dict[str, object] = json.load(file)
    return document


def _pause(directory: Path, spec: ProcessSpec, line: socket.socket) -> NoReturn:
    """Act as a sandbox's pause: enter its cgroups, report the start, and wait for a signal."""
    show_role("pause", spec)
    ending = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    launch.place(spec)
    me = identity_of(os.getpid())
    started = Started(boot_id(), me, me, time.time_ns())
    write_record(directory, STARTED, started)
    descriptor = os.pidfd_open(me.pid)
    with contextlib.suppress(OSError):
        socket.send_fds(line, [Word.STARTED], [descriptor, descriptor])
    line.close()
    os.close(descriptor)
    number = signal.sigwait(ending)
    write_record(directory, EXIT, Ended(128 + number, time.time_ns()))
    os._exit(0)
