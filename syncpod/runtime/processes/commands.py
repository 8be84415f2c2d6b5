"""A supervisor's side of commands that are executed in its container: each a child, as the main process is."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
from collections.abc import Callable
from dataclasses import dataclass

from syncpod.runtime.port import ProcessSpec
from syncpod.runtime.processes import launch
from syncpod.runtime.processes.descendants import children_of, session_of
from syncpod.runtime.processes.packets import Word

Answer = Callable[[bytes], None]
"""Sends a packet to who asked for the command; nothing happens if nobody is there any more."""
Watch = Callable[[int, Callable[[int], None]], None]
Unwatch = Callable[[int], None]


@dataclass(eq=False)
class Command:
    """One command that was begun, and may have ended since."""

    pid: int
    answer: Answer
    report: int
    """The pipe on which the child says why its program does not run; -1 once that has been read."""


class Commands:
    """The commands of one container."""

    def __init__(self, spec: ProcessSpec, watch: Watch, unwatch: Unwatch) -> None:
        """Have none; `watch` calls back when a descriptor can be read, until `unwatch`."""
        self._spec = spec
        self._watch = watch
        self._unwatch = unwatch
        self._running: dict[int, Command] = {}
        self._doomed: set[int] = set()
        """Sessions of commands that were let go while they ran."""

    def execute(self, descriptors: list[int], namespaces: list[tuple[int, int]], answer: Answer) -> Command | None:
        """Run a command; the first descriptor holds what to run, the others are its streams: one terminal, or three.

        Who asked is told STARTED or REFUSED, and EXITED with the code when it has ended. None where it cannot even be
        tried: the machine has no more processes or files to give, of which the container shall not die.
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
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))  # The kernel drops those that find no room.
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
        """Take note that a child has ended, if it is one of the commands."""
        command = self._running.pop(pid, None)
        if command is not None:
            if command.report >= 0:
                self._read_report(command)
            command.answer(Word.EXITED + str(code).encode())

    def let_go(self, command: Command) -> None:
        """Kill a command with all that it started, if it still runs.

        Its descendants become our children as their parents die, and are killed then, by their session; one that has
        left the session is found in the tree now, or lives on as the container's own until that ends.
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
        os.kill(command.pid, signal.SIGKILL)  # Not yet waited for, so this is still it.

    def kill_orphans(self) -> None:
        """Kill what has become our child of commands that were let go; to be called when a child has ended."""
        if not self._doomed:
            return
        children = [(pid, session_of(pid)) for pid in children_of(os.getpid())]
        for pid, session in children:
            if session in self._doomed:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        self._doomed &= {session for _, session in children}

    def _read_report(self, command: Command) -> None:
        """Tell who asked whether the program runs."""
        said = os.read(command.report, select.PIPE_BUF)
        self._unwatch(command.report)
        os.close(command.report)
        command.report = -1
        command.answer(Word.REFUSED + said if said else Word.STARTED)
