"""A supervisor's side of commands that are executed in its container; like the main process, each is a child."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
from collections.abc import Callable
from dataclasses import dataclass

from syncpod.kernel.procfs import children_of
from syncpod.runtime.port import ProcessSpec
from syncpod.runtime.processes import launch
from syncpod.runtime.processes.packets import Word

Answer = Callable[[bytes], None]
"""Sends a packet to the client of the command; does nothing if the client has disconnected."""
Watch = Callable[[int, Callable[[int], None]], None]
Unwatch = Callable[[int], None]


@dataclass(eq=False)
class Command:
    """One command, which may have ended."""

    pid: int
    answer: Answer
    report: int
    """The pipe on which the child reports why its program cannot run; -1 once it has been read."""


class Commands:
    """The commands of one container."""

    def __init__(self, spec: ProcessSpec, watch: Watch, unwatch: Unwatch) -> None:
        """Start without commands. `watch` registers a callback for a readable descriptor, and `unwatch` removes it."""
        self._spec = spec
        self._watch = watch
        self._unwatch = unwatch
        self._running: dict[int, Command] = {}
        self._doomed: set[int] = set()
        """Sessions of commands that ran when their clients left."""

    def execute(self, descriptors: list[int], namespaces: list[tuple[int, int]], answer: Answer) -> Command | None:
        """Run a command; the first descriptor has the request, the others its streams: one terminal, or three pipes.

        The client gets STARTED or REFUSED, and EXITED with the code when the command has ended. Returns None if the
        machine has no process or descriptor left: this must not end the container.
        """
        try:
            return self._begin(descriptors, namespaces, answer)
        except OSError as error:
            answer(Word.REFUSED + f"cannot fork: {(error.strerror or str(error)).lower()}".encode())
            return None
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _begin(self, descriptors: list[int], namespaces: list[tuple[int, int]], answer: Answer) -> Command:
        if len(descriptors) not in (2, 4):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))  # The kernel drops descriptors beyond the limit.
        request, *stdio = descriptors
        with open(request, encoding="utf-8", errors="surrogateescape", closefd=False) as file:
            document = json.load(file)
        streams = (stdio[0], stdio[0], stdio[0]) if document["terminal"] else (stdio[0], stdio[1], stdio[2])
        pid, report = launch.fork(
            lambda _: launch.run_command(
                self._spec, namespaces, tuple(document["arguments"]), streams, terminal=document["terminal"]
            )
        )
        command = self._running[pid] = Command(pid, answer, report)
        self._watch(report, lambda _: self._read_report(command))
        return command

    def note_end(self, pid: int, code: int) -> None:
        """Handle the end of a child, if it is one of the commands."""
        command = self._running.pop(pid, None)
        if command is not None:
            if command.report >= 0:
                self._read_report(command)
            command.answer(Word.EXITED + str(code).encode())

    def let_go(self, command: Command) -> None:
        """Kill a command with everything that it started, if it still runs.

        Its descendants become our children when their parents die, and are then recognised by their session and killed.
        A descendant that has left the session is found in the process tree now, or else lives until the container ends.
        """
        if self._running.get(command.pid) is not command:
            return
        tree = [command.pid]
        for each in tree:
            tree.extend(children_of(each))
        self._doomed.add(command.pid)
        for each in reversed(tree[1:]):
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(each)
                if each in {child for parent in tree for child in children_of(parent)}:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                os.close(descriptor)
        os.kill(command.pid, signal.SIGKILL)  # Nobody has reaped the command, so the pid is still its own.

    def kill_orphans(self) -> None:
        """Kill those of our children that are orphans of abandoned commands. Call this when a child has ended."""
        if not self._doomed:
            return
        children = [(pid, _session_of(pid)) for pid in children_of(os.getpid())]
        for pid, session in children:
            if session in self._doomed:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        self._doomed &= {session for _, session in children}

    def _read_report(self, command: Command) -> None:
        """Send the client STARTED, or REFUSED with the reason."""
        said = os.read(command.report, select.PIPE_BUF)
        self._unwatch(command.report)
        os.close(command.report)
        command.report = -1
        command.answer(Word.REFUSED + said if said else Word.STARTED)


def _session_of(pid: int) -> int:
    """Return the session of a process; 0 if it is gone, which is never a session."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0
