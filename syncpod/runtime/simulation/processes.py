"""Simulated processes: timers that obey a script in the sandbox's annotations (:mod:`.script`).

Like real processes, they outlive the server. The end of a process is decided when it starts, and is written to its
directory. From then on the process follows the clock, whether or not a server runs, and the next server finds it
running or ended. The effect of a signal is on disk before it takes place.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.runtime.port import Exited, Mount, ProcessSpec, StartFailed, Stream, Usage
from syncpod.runtime.simulation.script import (
    ContainerScript,
    ExecScript,
    PodScript,
    ScriptInvalid,
    container_script,
    container_text,
    pod_script,
    read_container,
)
from syncpod.runtime.simulation.timers import Timer, Timers

_RECORD: Final = "simulated.json"
_LINE_BYTES: Final = 16 * 1024
"""Maximum bytes of a part of a line in a log, as in containerd."""
_HARMLESS: Final = frozenset(
    {0, signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
    | {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
)
"""Signals that by default do not end a process."""


@dataclass(frozen=True, slots=True)
class _End:
    """When and how a process ends."""

    at: int
    exit_code: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Record:
    """The record in a process's directory."""

    started_at: int
    name: str
    """The container's name; empty for a pause."""
    script: str
    """The container's script, as written."""
    log_path: str
    end: _End | None
    """The end of the process by itself; None if it runs until it is stopped."""
    restarts_runtime_at: int | None = None
    input_ends: bool = False
    """True if the end of input reaches the process; otherwise it only ends the attachment."""

    def write(self, directory: str) -> None:
        """Write the record atomically."""
        replace_file(Path(directory, _RECORD), json.dumps(asdict(self)), durable=False)

    @classmethod
    def read(cls, directory: Path) -> _Record | None:
        """Read the record; None if the process was never started."""
        try:
            record: dict[str, Any] = json.loads((directory / _RECORD).read_text())
        except FileNotFoundError:
            return None
        end, script = record.pop("end"), sys.intern(record.pop("script"))
        return cls(**record, script=script, end=None if end is None else _End(**end))


class Simulated:
    """Starts simulated processes and finds them again; `Processes` of :mod:`.port`."""

    def __init__(self, restart: Callable[[], None], clock: Callable[[], int] = time.time_ns) -> None:
        """Use `clock`, in nanoseconds since the epoch; `restart` makes the runtime crash and start again."""
        self._restart = restart
        self._clock = clock
        self._timers = Timers(clock)

    def refusal(self, mount: Mount) -> str | None:
        """Return None: nothing is mounted, so nothing is missing. See Processes."""
        return None

    async def start(self, spec: ProcessSpec, directory: Path) -> SimulatedProcess:
        """Start a process after its script's delay, or fail with its script's error. See Processes."""
        try:
            script = container_script(spec.script, spec.name) if spec.name else pod_script(spec.script)
        except ScriptInvalid as error:
            raise StartFailed(str(error)) from error
        if script.start_delay:
            await asyncio.sleep(script.start_delay / 1e9)
        if isinstance(script, ContainerScript) and script.start_error:
            raise StartFailed(script.start_error)
        now = self._clock()
        record = _Record(
            started_at=now,
            name=spec.name,
            script=sys.intern(container_text(spec.script, spec.name)) if spec.name else "{}",
            log_path=spec.log_path,
            end=_own_end(script, spec.attempt, now),
            restarts_runtime_at=_runtime_restart(script, now),
            input_ends=spec.stdin_once and not spec.terminal,
        )
        if isinstance(script, ContainerScript) and spec.log_path:
            try:
                _write_log(spec.log_path, script.log, now)
            except OSError as error:
                raise StartFailed(f"failed to open log file {spec.log_path!r}: {error.strerror}") from error
        record.write(str(directory))
        return self._run(record, directory)

    async def find(self, directory: Path) -> SimulatedProcess | Exited | None:
        """Return a process that runs by the clock, or its end. See Processes."""
        record = _Record.read(directory)
        if record is None:
            return None
        now = self._clock()
        if record.end is not None and record.end.at <= now:
            return _exited(record)
        if record.restarts_runtime_at is not None and record.restarts_runtime_at <= now:
            # At that moment the runtime was down. It has just started, which counts as the restart.
            record = replace(record, restarts_runtime_at=None)
        return self._run(record, directory)

    async def close(self) -> None:
        """Stop waiting; the processes run on by the clock. See Processes."""
        self._timers.close()

    def _run(self, record: _Record, directory: Path) -> SimulatedProcess:
        process = SimulatedProcess(record, str(directory), self._timers, self._clock)
        if record.restarts_runtime_at is not None:
            self._timers.at(record.restarts_runtime_at, lambda: None if process.has_ended else self._restart())
        return process


class SimulatedProcess:
    """One simulated process (`Process` of :mod:`.port`). It is small, since there are many thousands."""

    __slots__ = ("_clock", "_directory", "_exited", "_record", "_timer", "_timers", "_waiting")

    def __init__(self, record: _Record, directory: str, timers: Timers, clock: Callable[[], int]) -> None:
        """Follow `record`, which is also on disk in `directory`."""
        self._record = record
        self._directory = directory
        self._timers = timers
        self._clock = clock
        self._waiting: list[asyncio.Future[None]] | None = None
        self._exited: Exited | None = None
        self._timer: Timer | None = None
        if record.end is not None:
            self._timer = timers.at(record.end.at, self._ended)

    @property
    def pid(self) -> int:
        """Always 0: there is no process."""
        return 0

    @property
    def started_at(self) -> int:
        """When it was started."""
        return self._record.started_at

    @property
    def has_ended(self) -> bool:
        """True once the process has ended."""
        return self._exited is not None

    async def wait(self) -> Exited:
        """Wait for the end and return it. See Process."""
        while self._exited is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if self._waiting is None:
                self._waiting = []
            self._waiting.append(waiter)
            await waiter
        return self._exited

    def signal(self, number: int) -> None:
        """End the process by its script, unless the script or the signal's default ignores the signal. See Process."""
        if number == signal.SIGKILL:
            self.kill()
        elif number not in _HARMLESS and not self._script.ignores_signals:
            script = self._script
            code = 128 + number if script.stop_exit_code is None else script.stop_exit_code
            self._bring_end(_End(self._clock() + script.stop_delay, code, _reason(code)))

    def kill(self) -> None:
        """End it now. See Process."""
        self._bring_end(_End(self._clock(), 128 + signal.SIGKILL, "Error"))

    async def reopen_log(self) -> None:
        """Make an empty file at the log's path: all lines were written at the start. See Process."""
        if self._record.log_path:
            _write_log(self._record.log_path, (), self._clock())

    async def execute(
        self, arguments: tuple[str, ...], *, terminal: bool = False, stdin: bool = False, merge_stderr: bool = False
    ) -> SimulatedStreams:
        """Return the script's answer, for any command. See Process."""
        if self._exited is not None:
            raise StartFailed("cannot exec in a stopped container")
        return SimulatedCommand(self._script.exec, merged=terminal or merge_stderr)

    async def attach(self) -> SimulatedStreams:
        """Return streams without output, which end with the process. See Process."""
        if self._exited is not None:
            raise StartFailed("cannot attach to a stopped container")
        return SimulatedAttachment(self, detaches=not self._record.input_ends)

    def usage(self) -> Usage | None:
        """Return the usage in the process's script, with the CPU time since its start. See Process."""
        if self._exited is not None:
            return None
        elapsed = max(0, self._clock() - self.started_at)
        return Usage(cpu_nanoseconds=elapsed * self._script.cpu // 1000, memory_bytes=self._script.memory, processes=1)

    @property
    def _script(self) -> ContainerScript:
        return read_container(self._record.name, self._record.script)

    def _bring_end(self, end: _End) -> None:
        """Set the process's end to `end`, unless the process ends before or at that time."""
        planned = self._record.end
        if self._exited is not None or (planned is not None and planned.at <= end.at):
            return
        self._record = replace(self._record, end=end)
        self._record.write(self._directory)
        if self._timer is not None:
            self._timers.cancel(self._timer)
        self._timer = self._timers.at(end.at, self._ended)

    def _ended(self) -> None:
        self._timer = None
        self._exited = _exited(self._record)
        for waiter in self._waiting or ():
            if not waiter.done():
                waiter.set_result(None)
        self._waiting = None


class SimulatedCommand:
    """A command in a simulated container (`Streams` of :mod:`.port`). It only gives the script's answer."""

    def __init__(self, answer: ExecScript, *, merged: bool) -> None:
        """Give the script's `answer`; with `merged`, all output is STDOUT."""
        self._answer = answer
        self._merged = merged
        self._answers_at = asyncio.get_running_loop().time() + answer.delay / 1e9

    async def write(self, data: bytes) -> None:
        """Discard the input."""

    def end_input(self) -> None:
        """Do nothing: no process reads the input."""

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        """Yield the answer."""
        await self._until_answered()
        if self._answer.stdout:
            yield Stream.STDOUT, self._answer.stdout.encode()
        if self._answer.stderr:
            yield Stream.STDOUT if self._merged else Stream.STDERR, self._answer.stderr.encode()

    def resize(self, columns: int, rows: int) -> None:
        """Do nothing: there is no terminal."""

    async def wait(self) -> int:
        """Return the answer's exit code."""
        await self._until_answered()
        return self._answer.exit_code

    async def close(self) -> None:
        """Do nothing: no process runs."""

    async def _until_answered(self) -> None:
        await asyncio.sleep(max(0.0, self._answers_at - asyncio.get_running_loop().time()))


class SimulatedAttachment:
    """The silent streams of a simulated container's own process (`Streams` of :mod:`.port`)."""

    def __init__(self, process: SimulatedProcess, *, detaches: bool) -> None:
        """End with the process, or also with the input if that `detaches`."""
        self._process = process
        self._detaches = detaches
        self._detached = asyncio.Event()

    async def write(self, data: bytes) -> None:
        """Discard the input."""

    def end_input(self) -> None:
        """Detach, if the end of the input does so."""
        if self._detaches:
            self._detached.set()

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        """Yield nothing until the process has ended, or we are detached."""
        ends = {asyncio.create_task(self._process.wait()), asyncio.create_task(self._detached.wait())}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
        return
        yield Stream.STDOUT, b""  # makes this function an asynchronous generator

    def resize(self, columns: int, rows: int) -> None:
        """Do nothing: there is no terminal."""

    async def wait(self) -> int:
        """Return the process's exit code."""
        return (await self._process.wait()).exit_code

    async def close(self) -> None:
        """Do nothing: there are no resources to free."""


SimulatedStreams = SimulatedCommand | SimulatedAttachment


def _own_end(script: ContainerScript | PodScript, attempt: int, now: int) -> _End | None:
    """Return how a process that starts now ends by itself; None if it runs until it is stopped."""
    if script.run_time is None:
        return None
    if isinstance(script, PodScript):
        return _End(now + script.run_time, 0, "Completed")
    code = script.exit_codes[min(max(0, attempt), len(script.exit_codes) - 1)]
    if code is None:
        return None
    return _End(now + script.run_time, code, "OOMKilled" if script.oom_killed else _reason(code))


def _runtime_restart(script: ContainerScript | PodScript, now: int) -> int | None:
    if isinstance(script, ContainerScript) or script.restart_runtime_after is None:
        return None
    return now + script.restart_runtime_after


def _exited(record: _Record) -> Exited:
    end = record.end
    assert end is not None
    return Exited(end.exit_code, end.reason, "", record.started_at, end.at)


def _reason(exit_code: int) -> str:
    return "Error" if exit_code else "Completed"


def _write_log(path: str, lines: tuple[str, ...], now: int) -> None:
    """Append lines to a log in CRI's format; the file and its directories are made if they are not there."""
    seconds, nanoseconds = divmod(now, 10**9)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{nanoseconds:09}Z"
    written = bytearray()
    for line in lines:
        rest = line.encode()
        while len(rest) > _LINE_BYTES:
            written += f"{stamp} stdout P ".encode() + rest[:_LINE_BYTES] + b"\n"
            rest = rest[_LINE_BYTES:]
        written += f"{stamp} stdout F ".encode() + rest + b"\n"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640), "ab") as log:
        log.write(written)
