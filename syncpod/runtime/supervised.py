"""Containers as real processes: each under a small supervisor that outlives this server.

    this server ── spawner (one) ── forks ──▶ supervisor (one a container) ── forks ──▶ main process
         │                                       ▲  writes log, started.json, exit.json
         └── a socket, pidfds ───────────────────┘

Nothing here is needed for a container to run on, or for its end to be recorded. A later server finds everything by the
container's directory (`records.py` says what is in it).

Supervisors are forked from the spawner, which has everything imported: a start costs a few milliseconds, and the memory
that they share counts once. They stay in the server's cgroup, so a service manager that ends all of that with the
server ends the containers too (systemd needs `KillMode=process`). Those that outlive the spawner become children of
process 1, or of the nearest subreaper, which is to reap them: where a program that does not is process 1, as in many
images, each leaves a zombie when its container ends.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from syncpod.runtime import control, records
from syncpod.runtime.contained import Contained
from syncpod.runtime.links import Links
from syncpod.runtime.packets import Word, receive
from syncpod.runtime.port import Exited, Mount, ProcessSpec, StartFailed
from syncpod.runtime.records import Ended, Level, Started
from syncpod.runtime.remains import end_remains

_STARTING_SECONDS = 0.01
"""How often to look how a start goes that an earlier server began."""
_SPAWNER = Path(__file__).with_name("spawner.py")
_PROBE = Path(__file__).with_name("probe.py")

OomKilled = Callable[[tuple[str, ...]], bool]
"""Whether the kernel killed a process of the cgroups with these cgroup.procs files for want of memory."""


class Supervised:
    """The containers' processes of one server. Use it from one event loop."""

    def __init__(self, *, level: Level, links: Path, oom_killed: OomKilled | None = None) -> None:
        """Begin nothing yet.

        `level` is what `probe` found; it holds for what is started, while what is found keeps its own. `links` is a
        directory, made when it is needed, for the claims to the symbolic links that stand for mounts in `plain`.
        """
        self._level = level
        self._links = Links(links)
        self._oom_killed = oom_killed or (lambda _: False)
        self._spawner: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._running: dict[Path, Contained] = {}

    @staticmethod
    async def probe(directory: Path) -> Level:
        """Find out, by trying in a child process, which level works for containers kept under `directory`."""
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
        return Level(output.decode().strip()) if trial.returncode == 0 else Level.PLAIN

    def refusal(self, mount: Mount) -> str | None:
        """Return, in a sentence, why no container could have this mount; None if one could, as things are."""
        return self._links.refusal(mount) if self._level is Level.PLAIN else None

    async def start(self, spec: ProcessSpec, directory: Path) -> Contained:
        """Start what the spec says; see `port.Processes.start`."""
        if self._level is Level.PLAIN and spec.mounts:
            self._link(spec)
        try:
            return await self._start(spec, directory)
        except StartFailed:
            self._release(spec)
            raise

    async def _start(self, spec: ProcessSpec, directory: Path) -> Contained:
        records.write_spec(directory, spec, self._level)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            self._request(directory, theirs)
        try:
            packet, descriptors = await _receive(ours)
        except BaseException:
            ours.close()
            raise
        if packet[:1] == Word.STARTED:
            started = records.read_started(directory)
            assert started is not None
            return self._hold(directory, spec, started, ours, supervisor=descriptors[0], main=descriptors[1])
        ours.close()
        if packet[:1] == Word.REFUSED:
            raise StartFailed(packet[1:].decode(errors="surrogateescape"))
        started = records.read_started(directory)
        if started is not None:
            await self._lost(directory, started)
        raise StartFailed("its supervisor ended before it could start it")

    async def find(self, directory: Path) -> Contained | Exited | None:
        """Return what became of what was started there; see `port.Processes.find`.

        A start that was cut off either goes on (its supervisor has the lock: this waits until it says how it went) or
        is withdrawn, so that it never will. One that failed is Exited 128 StartError, with started_at 0.
        """
        running = self._running.get(directory)
        if running is not None:
            return running
        while True:
            ended = records.read_ended(directory)
            if ended is not None:
                return self._exited(directory, ended)
            try:
                lock = _lock(directory)
            except FileNotFoundError:
                return None
            except BlockingIOError:
                found = self._reconnect(directory)
                if found is not None:
                    return found
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
            await asyncio.to_thread(self._spawner.wait)
            self._requests = self._spawner = None

    def _link(self, spec: ProcessSpec) -> None:
        for mount in spec.mounts:  # Things may have changed since the container was created.
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
        """Take back a specification that nobody runs, so that a supervisor that comes late finds none."""
        known = records.read_spec(directory)
        (directory / records.SPEC).unlink()
        if known is not None:
            self._release(known[0])

    def _request(self, directory: Path, line: socket.socket) -> None:
        """Ask the spawner for a supervisor, starting one where there is none, or none any more."""
        for attempt in range(2):
            if self._requests is None:
                self._start_spawner()
            assert self._requests is not None
            try:
                socket.send_fds(self._requests, [os.fsencode(directory.absolute())], [line.fileno()])
                return
            except OSError as error:
                if attempt:
                    raise StartFailed(f"no supervisor can be started: {error.strerror}") from error
                self._requests.close()
                self._requests = None

    def _start_spawner(self) -> None:
        if self._spawner is not None:
            self._spawner.wait()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._spawner = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SPAWNER)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        self._requests = ours

    def _reconnect(self, directory: Path) -> Contained | None:
        """Return the process, whose supervisor lives; None while it starts, or if it has just ended."""
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
        if main is None or (known[0].arguments and line is None):
            os.close(supervisor)
            if main is not None:
                os.close(main)
            return None
        return self._hold(directory, known[0], started, line, supervisor=supervisor, main=main)

    def _hold(
        self,
        directory: Path,
        spec: ProcessSpec,
        started: Started,
        line: socket.socket | None,
        *,
        supervisor: int,
        main: int,
    ) -> Contained:
        process = Contained(directory, spec, started, line, supervisor=supervisor, main=main)
        self._running[directory] = process

        def settle(ended: Ended | None) -> None:
            self._running.pop(directory, None)
            if ended is not None:
                process.settle(self._exited(directory, ended))
                return
            task = asyncio.ensure_future(self._lost(directory, started))
            task.add_done_callback(lambda done: process.settle(done.result()))

        process.watch(settle)
        return process

    def _exited(self, directory: Path, ended: Ended) -> Exited:
        known = records.read_spec(directory)
        if known is not None:
            self._release(known[0])
        if ended.error:
            return Exited(128, "StartError", ended.error, 0, ended.finished_at)
        started = records.read_started(directory)
        started_at = started.started_at if started else 0
        if ended.unknown:
            return Exited(255, "Unknown", "", started_at, ended.finished_at)
        if known is not None and known[0].cgroup_procs and self._oom_killed(known[0].cgroup_procs):
            reason = "OOMKilled"
        else:
            reason = "Completed" if ended.exit_code == 0 else "Error"
        return Exited(ended.exit_code, reason, "", started_at, ended.finished_at)

    async def _lost(self, directory: Path, started: Started) -> Exited:
        """Record the end of what lost its supervisor, after killing what is left of it."""
        ended = records.read_ended(directory)
        if ended is None:
            known = records.read_spec(directory)
            if started.boot_id == records.boot_id():
                await asyncio.to_thread(end_remains, started.main, known[0].cgroup_procs if known else ())
            ended = Ended(255, time.time_ns(), unknown=True)
            records.write_record(directory, records.EXIT, ended)
        return self._exited(directory, ended)


def _lock(directory: Path) -> IO[bytes]:
    """Take the lock of a specification, until it is closed.

    Raises FileNotFoundError where there is none, BlockingIOError where its supervisor lives.
    """
    file = open(directory / records.SPEC, "rb")  # noqa: PTH123, SIM115 - what is returned is the lock
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file


async def _receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Return the next packet, empty at the end, and the descriptors that came with it."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sock, control.set_ready, ready)
    try:
        await ready
    finally:
        loop.remove_reader(sock)
    try:
        return receive(sock)
    except ConnectionError:
        return b"", []
