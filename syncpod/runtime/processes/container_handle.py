"""The server's handle of a running container: its supervisor's socket, and two pidfds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from syncpod.runtime.cgroups.usage import usage_below, usage_of
from syncpod.runtime.port import Exited, ProcessSpec, Streams, Usage
from syncpod.runtime.processes import control, records
from syncpod.runtime.processes.packets import LONGEST, Word
from syncpod.runtime.processes.records import Ended, Started

_KILL_PATIENCE_SECONDS = 5.0
"""Seconds within which a supervisor must kill its container; otherwise the supervisor is killed itself."""


class ContainerHandle:
    """One running container; after its end, its result."""

    def __init__(
        self,
        directory: Path,
        spec: ProcessSpec,
        started: Started,
        line: socket.socket | None,
        *,
        supervisor: int,
        main: int,
    ) -> None:
        """Take the supervisor's socket (a pause has none) and pidfds; `main` is -1 if the main process has ended."""
        self._directory = directory
        self._spec = spec
        self._started = started
        self._line = line
        self._supervisor = supervisor
        self._main = main
        self._exited: asyncio.Future[Exited] = asyncio.get_running_loop().create_future()
        self._impatience: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int:
        """The pid of the main process, or of the pause."""
        return self._started.main.pid

    @property
    def started_at(self) -> int:
        """When it was started, in nanoseconds since the epoch."""
        return self._started.started_at

    async def wait(self) -> Exited:
        """Wait for the end and return it."""
        return await asyncio.shield(self._exited)

    def signal(self, number: int) -> None:
        """Send a signal to the main process only."""
        _signal(self._main, number)

    def kill(self) -> None:
        """Kill the main process and everything that it started.

        The supervisor does this, even if it is stopped by a signal. After five seconds the supervisor itself is killed,
        and this process finds and kills the rest.
        """
        if self._supervisor < 0:
            return
        if not self._spec.arguments:
            _signal(self._supervisor, signal.SIGKILL)
            return
        _signal(self._supervisor, signal.SIGTERM)
        _signal(self._supervisor, signal.SIGCONT)
        _signal(self._main, signal.SIGKILL)
        if self._impatience is None:
            loop = asyncio.get_running_loop()
            self._impatience = loop.call_later(_KILL_PATIENCE_SECONDS, self._kill_supervisor)

    async def reopen_log(self) -> None:
        """Continue in a new file at the log's path. Raises OSError."""
        answer = await control.ask(self._directory, Word.REOPEN)
        if answer[:1] == Word.REFUSED:
            number = int(answer[1:])
            raise OSError(number, os.strerror(number), self._spec.log_path)

    async def execute(
        self, arguments: tuple[str, ...], *, terminal: bool = False, stdin: bool = False, merge_stderr: bool = False
    ) -> Streams:
        """Run a command like the main process. Raises StartFailed."""
        return await control.execute(
            self._directory, arguments, terminal=terminal, stdin=stdin, merge_stderr=merge_stderr
        )

    async def attach(self) -> Streams:
        """Attach to the main process's streams. Raises StartFailed if it has ended."""
        code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def pass_on(ended: asyncio.Future[Exited]) -> None:
            if not code.done() and not ended.cancelled():
                code.set_result(ended.result().exit_code)

        attached = await control.attach(self._directory, code)
        self._exited.add_done_callback(pass_on)
        return attached

    def usage(self) -> Usage | None:
        """Return its usage; None if it has ended."""
        if self._supervisor < 0:
            return None
        return usage_below(self._started.supervisor.pid) if self._spec.arguments else usage_of(self.pid)

    def watch(self, ended: Callable[[Ended | None], None]) -> None:
        """Call `ended` with the end once the supervisor reports it, even if the end is not recorded.

        Call it with None if the supervisor has ended without a report; then the caller must read the record on disk.
        """

        def gone() -> None:
            said = self._last_word()  # The supervisor may already have reported the end and gone.
            self.let_go()
            ended(said)

        def spoken() -> None:
            said = self._last_word()
            if said is not None:
                self.let_go()
                ended(said)

        loop = asyncio.get_running_loop()
        loop.add_reader(self._supervisor, gone)
        if self._line is not None:
            loop.add_reader(self._line, spoken)

    def _last_word(self) -> Ended | None:
        """Read the supervisor's packets; return the end if it was among them."""
        while self._line is not None:
            try:
                packet = self._line.recv(LONGEST)
            except BlockingIOError:
                return None
            except OSError:
                packet = b""
            if packet[:1] == Word.ENDED:
                with contextlib.suppress(ValueError, TypeError):
                    return records.parse_ended(packet[1:])
            if not packet:
                asyncio.get_running_loop().remove_reader(self._line)
                return None
        return None

    def settle(self, exited: Exited) -> None:
        """Publish the end."""
        if not self._exited.done():
            self._exited.set_result(exited)

    def let_go(self) -> None:
        """Stop watching; a running process runs on."""
        loop = asyncio.get_running_loop()
        if self._impatience is not None:
            self._impatience.cancel()
        if self._line is not None:
            loop.remove_reader(self._line)
            self._line.close()
            self._line = None
        if self._supervisor >= 0:
            loop.remove_reader(self._supervisor)
            os.close(self._supervisor)
            if self._main >= 0:
                os.close(self._main)
            self._supervisor = self._main = -1

    def _kill_supervisor(self) -> None:
        _signal(self._supervisor, signal.SIGKILL)


def _signal(pidfd: int, number: int) -> None:
    if pidfd >= 0:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, number)
