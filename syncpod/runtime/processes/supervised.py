"""Containers as real processes: each under a small supervisor that outlives this server.

    this server ── spawner (one) ── forks ──▶ supervisor (one a container) ── forks ──▶ main process
         │                                       ▲  writes log, started.json, exit.json
         └── a socket, pidfds ───────────────────┘

Without this server a container runs on, and its end is recorded. A later server finds the container by its directory
(`records.py` describes the files in it).

Supervisors are forked from the spawner, which has imported all modules: a start costs a few milliseconds, and memory
that supervisors share counts once. Supervisors stay in the server's cgroup, so a service manager that kills this cgroup
with the server also kills the containers (systemd needs `KillMode=process`). Supervisors that outlive the spawner
become children of process 1, or of the nearest subreaper, which must reap them. If process 1 does not, as in many
images, each supervisor leaves a zombie when its container ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from syncpod.kernel.procfs import boot_id
from syncpod.runtime.port import Exited, Mount, ProcessSpec, StartFailed
from syncpod.runtime.processes import control, records
from syncpod.runtime.processes.container_handle import ContainerHandle
from syncpod.runtime.processes.links import Links
from syncpod.runtime.processes.packets import Word, receive
from syncpod.runtime.processes.records import Ended, Level, Started
from syncpod.runtime.processes.remains import end_remains

_STARTING_SECONDS = 0.01
"""Seconds between two checks of a start that an earlier server began."""
_PATIENCE_SECONDS = 2.0
"""Seconds to wait for a supervisor's report of a start or an end."""
_START_SECONDS = 60.0
"""Timeout of a start in seconds. The kubelet's timeout is two minutes."""
_SPAWNER_SECONDS = 1.0
"""Seconds for a spawner to exit by itself."""
_PIDFDS = 2
_HOLDING_TAKES = _PIDFDS + 1
"""The number of descriptors for a start: those that come with STARTED, and one to read a record."""
_SPAWNER = Path(__file__).with_name("spawner.py")
_PROBE = Path(__file__).with_name("probe.py")


class Supervised:
    """The containers' processes of one server. Use it from one event loop."""

    def __init__(self, *, level: Level, links: Path, open_files: int | None = None) -> None:
        """Start nothing yet.

        `level`, from `probe`, applies to new processes; processes of an earlier server keep theirs. `links` is the
        directory for claims to the symbolic links that replace mounts in `plain`; it is made when it is needed.
        `open_files` is the soft limit (RLIMIT_NOFILE) that containers start with; None: the server's own.
        """
        self._level = level
        self._spawner_arguments = () if open_files is None else (str(open_files),)
        self._links = Links(links)
        self._spawner: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._asking = asyncio.Lock()
        """Held during a request to the spawner: only one request may wait for room in its socket."""
        self._running: dict[Path, ContainerHandle] = {}
        self._concluding: set[asyncio.Task[None]] = set()

    @staticmethod
    async def probe(directory: Path) -> tuple[Level, str]:
        """Find out, by trying in a child process, which level works for containers in `directory`.

        Also returns the reason why mount namespaces are not available; "" if they are.
        """
        trial = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            str(_PROBE),
            str(directory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        output, _ = await trial.communicate()
        if trial.returncode != 0:
            return Level.PLAIN, f"the trial ended with {trial.returncode}"
        level, _, why_not = output.decode(errors="replace").strip().partition("\n")
        return Level(level), why_not

    def refusal(self, mount: Mount) -> str | None:
        """Return a sentence with the reason why no container can have this mount now; None if one can."""
        return self._links.refusal(mount) if self._level is Level.PLAIN else None

    async def start(self, spec: ProcessSpec, directory: Path) -> ContainerHandle:
        """Start the process of a specification; see `port.Processes.start`."""
        if self._level is Level.PLAIN and spec.mounts:
            self._link(spec)
        try:
            return await self._start(spec, directory)
        except (StartFailed, OSError):
            self._release(spec)
            raise

    async def _start(self, spec: ProcessSpec, directory: Path) -> ContainerHandle:
        records.write_spec(directory, spec, self._level)
        # Reserve the descriptors for the handle of the running process; without them it is not started.
        room: list[int] = []
        try:
            while len(room) < _HOLDING_TAKES:
                room.append(os.open(os.devnull, os.O_RDONLY))
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.setblocking(False)
            try:
                async with asyncio.timeout(_START_SECONDS):
                    with theirs:
                        await self._request(directory, theirs)
                    await control.readable(ours)
            except TimeoutError:
                ours.close()
                ended = await self._give_up(directory)
                raise StartFailed(f"nothing was started within {_START_SECONDS:.0f} seconds", ended) from None
            except BaseException:
                ours.close()
                raise
        finally:
            for descriptor in room:
                os.close(descriptor)
        packet, descriptors = _receive(ours)
        if packet[:1] == Word.STARTED:
            try:
                started = records.read_started(directory)
                if started is None or len(descriptors) != _PIDFDS:
                    raise StartFailed("its supervisor left no record of it")
                return self._hold(directory, spec, started, ours, supervisor=descriptors[0], main=descriptors[1])
            except BaseException as error:
                ours.close()
                ended = await self._undo(directory, descriptors)
                if isinstance(error, StartFailed | OSError):
                    raise StartFailed(str(error), ended) from error
                raise
        ours.close()
        if packet[:1] == Word.REFUSED:
            raise StartFailed(packet[1:].decode(errors="surrogateescape"))
        started = records.read_started(directory)
        ended = None if started is None else await self._lost(directory, started)
        raise StartFailed("its supervisor ended before it could report the start", ended)

    async def _give_up(self, directory: Path) -> Exited | None:
        """Give up a start that has had no result so far. Any of its processes may be stuck.

        Return how the process ended; None if it never began.
        """
        try:
            with _lock(directory):
                self._withdraw(directory)
        except FileNotFoundError:
            return None
        except BlockingIOError:  # A supervisor has started.
            return None if self._withdraw_claimed(directory) else await self._undo(directory, [])
        self._replace_spawner()
        return None

    async def _undo(self, directory: Path, descriptors: list[int]) -> Exited | None:
        """Kill, by its pidfds, a started process that the server cannot take over; close the pidfds.

        Return how it ended; None if no start is recorded.
        """
        started = None
        with contextlib.suppress(OSError, ValueError):
            started = records.read_started(directory)
        if not descriptors and started is not None:
            supervisor = records.open_process(started.supervisor)
            descriptors = [] if supervisor is None else [supervisor]
        await _kill_started(descriptors)
        return None if started is None else await self._lost(directory, started)

    async def find(self, directory: Path) -> ContainerHandle | Exited | None:
        """Return the process that was started in `directory`, or its end; see `port.Processes.find`.

        An interrupted start either continues, or is withdrawn for good. It continues if its supervisor has the lock;
        then this waits for the result. A failed start is returned as Exited 128 StartError, with started_at 0.

        Returns within seconds. A supervisor may neither continue nor end, because it was stopped, or waits for a
        process that cannot die. Then the process that it has started counts as running, and its end is awaited.
        """
        running = self._running.get(directory)
        if running is not None:
            return running
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            overdue = time.monotonic() >= deadline
            ended = records.read_ended(directory)
            if ended is not None:
                return self._exited(directory, ended)
            try:
                lock = _lock(directory)
            except FileNotFoundError:
                return None
            except BlockingIOError:
                found = self._reconnect(directory, ending=overdue)
                if found is not None:
                    return found
                if overdue:
                    started = records.read_started(directory)
                    if started is not None:
                        return await self._lost(directory, started)
                    if self._withdraw_claimed(directory):
                        return None
                await asyncio.sleep(_STARTING_SECONDS)
                continue
            with lock:
                if (directory / records.EXIT).exists():
                    continue
                started = records.read_started(directory)
                if started is not None:
                    return await self._lost(directory, started)
                self._withdraw(directory)
                return None

    async def close(self) -> None:
        """Let go of all processes; they run on."""
        for process in tuple(self._running.values()):
            process.let_go()
        self._running.clear()
        if self._requests is not None and self._spawner is not None:
            self._requests.close()
            await asyncio.to_thread(_end_spawner, self._spawner)
            self._requests = self._spawner = None

    def _link(self, spec: ProcessSpec) -> None:
        for mount in spec.mounts:  # The machine may have changed since the container was created.
            problem = self._links.refusal(mount)
            if problem:
                raise StartFailed(problem)
        try:
            self._links.make(spec.id, spec.mounts)
        except OSError as error:
            self._release(spec)
            raise StartFailed(f"mount {error.filename2 or error.filename}: {error.strerror}") from error

    def _release(self, spec: ProcessSpec) -> None:
        if spec.mounts:
            self._links.release(spec.id)

    def _withdraw(self, directory: Path) -> None:
        """Withdraw a specification that no supervisor runs, so that a late supervisor does not find it."""
        known = records.read_spec(directory)
        (directory / records.SPEC).unlink()
        if known is not None:
            self._release(known[0])

    def _withdraw_claimed(self, directory: Path) -> bool:
        """Withdraw a specification that a supervisor has claimed but not started; False if it has started meanwhile.

        A supervisor first records the processes, then checks that the specification is still in place, and only then
        runs the program. This method moves the specification first, then checks for the record. So at least one of the
        two notices the other.
        """
        known = records.read_spec(directory)
        aside = directory / (records.SPEC + ".withdrawn")
        (directory / records.SPEC).rename(aside)
        if records.read_started(directory) is not None:
            aside.rename(directory / records.SPEC)
            return False
        aside.unlink()
        if known is not None:
            self._release(known[0])
        return True

    async def _request(self, directory: Path, line: socket.socket) -> None:
        """Request a supervisor from the spawner, which is started if there is none.

        Requests wait in line if they arrive faster than the spawner forks.
        """
        request = os.fsencode(directory.absolute())  # noqa: ASYNC240 - it only joins names
        async with self._asking:
            replaced = False
            while True:
                if self._requests is None:
                    self._start_spawner()
                assert self._requests is not None
                try:
                    socket.send_fds(self._requests, [request], [line.fileno()])
                    return
                except BlockingIOError:
                    with self._requests.dup() as waiting:  # The spawner may end meanwhile, and its socket be closed.
                        await control.writable(waiting)
                except OSError as error:
                    if replaced:
                        raise StartFailed(f"no supervisor can be started: {error.strerror}") from error
                    self._replace_spawner()
                    replaced = True

    def _replace_spawner(self) -> None:
        """Make the next request start a new spawner: the present one has ended, or was stopped."""
        if self._requests is not None and self._spawner is not None:
            self._requests.close()
            self._spawner.kill()
            self._spawner.wait()
            self._requests = self._spawner = None

    def _start_spawner(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._spawner = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SPAWNER), *self._spawner_arguments],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        ours.setblocking(False)
        self._requests = ours

    def _reconnect(self, directory: Path, *, ending: bool) -> ContainerHandle | None:
        """Return the process with a live supervisor; None while it starts, or if it has just ended.

        With `ending`, also return a process that has ended, or whose supervisor does not accept connections.
        """
        started = records.read_started(directory)
        known = records.read_spec(directory)
        if started is None or known is None:
            return None
        supervisor = records.open_process(started.supervisor)
        if supervisor is None:
            return None
        main = records.open_process(started.main)
        line: socket.socket | None = None
        try:
            if known[0].arguments:
                line = control.connect(directory)
        except OSError:
            line = None
        if not ending and (main is None or (known[0].arguments and line is None)):
            os.close(supervisor)
            if main is not None:
                os.close(main)
            if line is not None:
                line.close()
            return None
        return self._hold(directory, known[0], started, line, supervisor=supervisor, main=-1 if main is None else main)

    def _hold(
        self,
        directory: Path,
        spec: ProcessSpec,
        started: Started,
        line: socket.socket | None,
        *,
        supervisor: int,
        main: int,
    ) -> ContainerHandle:
        process = ContainerHandle(directory, spec, started, line, supervisor=supervisor, main=main)
        self._running[directory] = process

        def settle(ended: Ended | None) -> None:
            self._running.pop(directory, None)
            task = asyncio.ensure_future(conclude(ended))
            self._concluding.add(task)
            task.add_done_callback(self._concluding.discard)

        async def conclude(ended: Ended | None) -> None:
            try:
                if ended is not None:
                    exited = self._exited(directory, ended, spec, started)
                else:
                    exited = await self._lost(directory, started, spec)
            except Exception as error:  # noqa: BLE001 - it has ended, even if nothing can be found out about its end
                message = f"its end is unknown: {error}"
                exited = Exited(255, "Unknown", message, started.started_at, time.time_ns())
            process.settle(exited)

        process.watch(settle)
        return process

    def _exited(
        self, directory: Path, ended: Ended, spec: ProcessSpec | None = None, started: Started | None = None
    ) -> Exited:
        """Return the end of a process, and release its links; missing arguments are read from the directory."""
        if spec is None:
            known = records.read_spec(directory)
            spec = known[0] if known else None
        if spec is not None:
            self._release(spec)
        if ended.error:
            return Exited(128, "StartError", ended.error, 0, ended.finished_at)
        started = started or records.read_started(directory)
        started_at = started.started_at if started else 0
        if ended.unknown:
            return Exited(255, "Unknown", "", started_at, ended.finished_at)
        reason = "Completed" if ended.exit_code == 0 else "Error"
        return Exited(ended.exit_code, reason, "", started_at, ended.finished_at)

    async def _lost(self, directory: Path, started: Started, spec: ProcessSpec | None = None) -> Exited:
        """Kill the rest of a container that has lost its supervisor, and record its end.

        The end is unknown unless the supervisor had noted the end of the main process.
        """
        ended = records.read_ended(directory)
        if ended is None:
            if spec is None:
                known = records.read_spec(directory)
                spec = known[0] if known else None
            if started.boot_id == boot_id():
                cgroup_procs = spec.cgroup_procs if spec else ()
                await asyncio.to_thread(end_remains, directory, started, cgroup_procs)
            ended = records.read_ending(directory) or Ended(255, time.time_ns(), unknown=True)
            with contextlib.suppress(OSError):  # The disk is full; the next server will find the same state.
                records.write_record(directory, records.EXIT, ended)
        return self._exited(directory, ended, spec, started)


def _lock(directory: Path) -> IO[bytes]:
    """Take the lock of a specification, which is held until the returned file is closed.

    Raises FileNotFoundError if there is none, BlockingIOError if its supervisor lives.
    """
    file = open(directory / records.SPEC, "rb")  # noqa: PTH123, SIM115 - the returned file is the lock
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file


def _end_spawner(spawner: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a spawner that should exit; a stopped one is killed. Blocks: call it in a thread."""
    try:
        spawner.wait(_SPAWNER_SECONDS)
    except subprocess.TimeoutExpired:
        spawner.kill()
        spawner.wait()


async def _kill_started(descriptors: list[int]) -> None:
    """Kill a process that was just started, by the pidfds of its supervisor and of itself, and close these."""
    try:
        for number in (signal.SIGTERM, signal.SIGKILL) if descriptors else ():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptors[0], number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await control.readable(descriptors[0])
                return
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Return the waiting packet, empty at the end, and its descriptors."""
    try:
        return receive(sock)
    except ConnectionError:
        return b"", []
