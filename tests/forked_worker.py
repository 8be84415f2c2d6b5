"""Runs the worker that a forked `up` starts as a fork, too, since imports take most of its start.

A process with threads must not fork. So the worker's process is forked before the command begins, and waits until the
command starts a worker; if the command starts none, the process ends with it. `syncpod.cli.machine.processes` can treat
it like a started process: it is a child in a session of its own, with a worker's log and environment.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from syncpod.cli.machine import processes
from syncpod.kernel import libc

Main = Callable[[list[str]], int]
"""A program: its arguments, and its exit code."""

_STARTING = frozenset({"up", "down"})
"""The commands that may start a worker."""
_ROOM = 1 << 17
"""The largest size in bytes of a worker's arguments and environment."""


class Detached:
    """A child of this process, with the methods of `subprocess.Popen` that commands use."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        if self.returncode is None and (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.returncode = os.waitstatus_to_exitcode(ended[1])
        return self.returncode


def with_a_worker(command: Main, worker: Main) -> Main:
    """Return the command, whose worker (if it starts one) is a fork of this process that runs `worker`."""

    def run(arguments: list[str]) -> int:
        if _STARTING & set(arguments):
            _have_worker_ready(worker)
        return command(arguments)

    return run


def exit_code_of(main: Main, arguments: list[str]) -> int:
    """Run a program to its end as the interpreter does, and return the exit code."""
    try:
        code = int(main(arguments))
    except SystemExit as end:
        code = _told_by(end)
    except BaseException:  # noqa: BLE001  # as the interpreter has it
        traceback.print_exc()
        code = 1
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    return code


def take_environment(environment: Mapping[str, str]) -> None:
    """Replace the environment by this one."""
    os.environ.clear()
    os.environ.update(environment)


def _have_worker_ready(main: Main) -> None:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if not pid:
        ours.close()
        os._exit(_wait_and_run(its, main))
    its.close()

    def start(command: Sequence[str], *, stdout: int, env: Mapping[str, str], **how: Any) -> Any:
        if Path(command[1]).name != "worker.py" or ours.fileno() < 0:
            return subprocess.Popen(command, stdout=stdout, env=env, **how)
        with ours:
            socket.send_fds(ours, [json.dumps({"command": list(command), "env": dict(env)}).encode()], [stdout])
            ours.recv(1)  # it is the program of its command line
        return Detached(pid)

    vars(processes)["subprocess"] = SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL)


def _wait_and_run(asked: socket.socket, main: Main) -> int:
    with asked:
        request, (*logs,), _, _ = socket.recv_fds(asked, _ROOM, 1)
        if not request:
            return 0
        told = json.loads(request)
        os.setsid()
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDONLY)
        for opened, standard in ((nothing, 0), (logs[0], 1), (logs[0], 2)):
            os.dup2(opened, standard)
        os.close(nothing)
        os.close(logs[0])
        take_environment(told["env"])
        libc.title_process("\0".join([*told["command"], ""]))
        sys.argv[1:] = told["command"][2:]
        asked.send(b"!")
    return exit_code_of(main, told["command"][2:])


def _told_by(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    sys.stderr.write(f"{end.code}\n")
    return 1
