"""One container's supervisor: a small process that starts the main process, writes its log, and records its end.

It outlives the server. Its single thread polls all descriptors, so a client that does not read or answer cannot block
the container. The supervisor is a subreaper, like a container's init process: all processes that the main process or an
executed command starts stay its descendants.

Packets on its sockets begin with a `Word` of one byte; see `packets.py`, and `control.py` for the server's side.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import time
from collections import deque
from pathlib import Path
from typing import NoReturn

from syncpod.kernel import libc
from syncpod.kernel.procfs import boot_id, children_of
from syncpod.runtime.cgroups import kill
from syncpod.runtime.port import ProcessSpec, StartFailed
from syncpod.runtime.processes import launch
from syncpod.runtime.processes.commands import Command, Commands
from syncpod.runtime.processes.cri_log import CriLog
from syncpod.runtime.processes.own_streams import OwnStreams
from syncpod.runtime.processes.packets import CHUNK, Word, receive
from syncpod.runtime.processes.records import (
    CONTROL,
    EXIT,
    SPEC,
    STARTED,
    Ended,
    Level,
    Started,
    format_ended,
    identity_of,
    note_ending,
    publish_ending,
    reserve_ending,
    write_record,
)
from syncpod.runtime.processes.watching import Watch

_BACKLOG = 1024 * 1024
"""Maximum bytes that wait for an attached client; a client with more is dropped."""
_FAREWELL_SECONDS = 1.0
"""Seconds for attached clients to read the last output, after the end is recorded."""
_FAREWELL_LOOK_SECONDS = 0.05
_RECORD_AGAIN_SECONDS = 0.5
"""Seconds between two tries to write an end."""
_HUNG_UP_LOOK_SECONDS = 0.25
"""Seconds between two checks whether a process has opened the container's terminal again."""
_REAPED_AT_ONCE = 256
"""Maximum number of children that are reaped before looking again for live ones."""


class _Connection:
    """A connection from a server, for itself or for one of its clients."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.attached = False
        self.command: Command | None = None
        """The command that this client started."""
        self.unsent: deque[bytes] = deque()
        self.unsent_bytes = 0


class Supervisor:
    """The supervisor of one container."""

    def __init__(self, directory: Path, spec: ProcessSpec, level: Level, line: socket.socket) -> None:
        """Prepare; `line` is the connection to the server that started it."""
        self._directory = directory
        self._spec = spec
        self._level = level
        self._line = line
        self._specification = (directory / SPEC).stat().st_ino
        self._watch = Watch()
        self._connections: list[_Connection] = []
        self._commands = Commands(spec, self._watch.add, self._watch.remove)
        self._namespaces: list[tuple[int, int]] = []
        self._main = 0
        self._status: int | None = None
        self._ending = -1
        """The file that will become the record of the end."""
        self._last_word = b""
        """The packet for every present or later client once the container has ended."""

    def run(self) -> NoReturn:
        """Start the main process, serve until it has ended, and record the end."""
        show_role("supervisor", self._spec)
        libc.prctl(libc.PR_SET_CHILD_SUBREAPER, 1)
        try:
            self._start()
        except StartFailed as failure:
            self._refuse(str(failure))
        except OSError as error:
            self._refuse(f"cannot start the process: {error.filename or 'the kernel'}: {error.strerror}")
        while self._status is None:
            self._watch.handle(_HUNG_UP_LOOK_SECONDS if self._streams.hung_up else None)
            if self._streams.hung_up:
                self._streams.look_at_terminal()
        self._finish(self._status)

    def _refuse(self, sentence: str) -> NoReturn:
        """Clean up a failed start, and report why it failed."""
        self._end_descendants()
        self._record(Ended(128, time.time_ns(), error=sentence))  # the server gets the sentence even if this fails
        with contextlib.suppress(OSError):
            self._line.send(Word.REFUSED + sentence.encode(errors="surrogateescape")[:CHUNK])
        os._exit(0)

    # The start.

    def _start(self) -> None:
        wake_reading, wake_writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._kill_all())
        self._ending = reserve_ending(self._directory)  # first, so that a failure can be recorded
        try:
            self._log = CriLog(self._spec.log_path)
        except OSError as error:
            raise StartFailed(f"open log {self._spec.log_path}: {error.strerror}") from error
        self._streams = OwnStreams(
            self._spec, self._watch, self._log, said=self._send_attached, moved=self._set_interests
        )
        stdio = self._streams.make()
        go_reading, go_writing = os.pipe()
        self._main, report = launch.fork(
            lambda gate: launch.run_main(gate, self._spec, self._level, self._directory, stdio), go=go_reading
        )
        for descriptor in {*stdio, go_reading}:
            os.close(descriptor)
        said = os.read(report, select.PIPE_BUF)
        if said != launch.READY:
            raise StartFailed(said.decode(errors="surrogateescape") or "the process was killed before it could start")
        main = identity_of(self._main)
        if self._level is not Level.PLAIN:
            own = {
                "user": (libc.CLONE_NEWUSER, self._level is Level.USER_NAMESPACES),
                "mnt": (libc.CLONE_NEWNS, True),
                "uts": (libc.CLONE_NEWUTS, bool(self._spec.hostname)),
            }
            self._namespaces = [
                (os.open(f"/proc/{self._main}/ns/{name}", os.O_RDONLY), kind)
                for name, (kind, has_own) in own.items()
                if has_own
            ]
        own_root = 0 if self._level is Level.PLAIN else Path(f"/proc/{self._main}/ns/mnt").stat().st_ino
        started = Started(boot_id(), identity_of(os.getpid()), main, time.time_ns(), own_root)
        listener = self._bind()
        write_record(self._directory, STARTED, started)
        if self._withdrawn():
            raise StartFailed("the start was withdrawn")
        os.write(go_writing, b".")
        os.close(go_writing)
        said = os.read(report, select.PIPE_BUF)
        os.close(report)
        if said:
            raise StartFailed(said.decode(errors="surrogateescape"))
        self._watch.add(wake_reading, lambda _: self._reap(wake_reading))
        self._listen(listener)
        descriptors = [os.pidfd_open(os.getpid()), os.pidfd_open(self._main)]
        with contextlib.suppress(OSError):  # The server may have died; the next one will find us.
            socket.send_fds(self._line, [Word.STARTED], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self._accept(self._line)

    def _withdrawn(self) -> bool:
        """Return whether a server has withdrawn the specification (`Supervised.find`) because of a late start."""
        try:
            return (self._directory / SPEC).stat().st_ino != self._specification
        except FileNotFoundError:
            return True

    def _bind(self) -> socket.socket:
        """Bind the socket through its directory's descriptor, because a path may be too long for a socket address."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.setblocking(False)
        directory = os.open(self._directory, os.O_PATH | os.O_DIRECTORY)
        mask = os.umask(0o177)
        listener.bind(f"/proc/self/fd/{directory}/{CONTROL}")
        os.umask(mask)
        os.close(directory)
        return listener

    def _listen(self, listener: socket.socket) -> None:
        """Accept servers, now that the program runs."""
        listener.listen(128)

        def accept(_: int) -> None:
            with contextlib.suppress(OSError):
                self._accept(listener.accept()[0])

        self._watch.add(listener.fileno(), accept)

    def _accept(self, sock: socket.socket) -> None:
        connection = _Connection(sock)
        self._connections.append(connection)
        self._watch.add(sock.fileno(), lambda events: self._serve(connection, events))
        if self._last_word:
            self._send(connection, self._last_word)

    # Connected clients.

    def _send_attached(self, packet: bytes) -> None:
        for connection in [each for each in self._connections if each.attached]:
            self._send(connection, packet)

    def _set_interests(self) -> None:
        for connection in self._connections:
            self._set_interest(connection)

    def _set_interest(self, connection: _Connection) -> None:
        """While the container has unread input, do not read from attached clients."""
        reading = 0 if connection.attached and self._streams.input_waits else select.POLLIN
        writing = select.POLLOUT if connection.unsent else 0
        self._watch.change(connection.sock.fileno(), reading | writing)

    def _send(self, connection: _Connection, packet: bytes) -> None:
        """Send now or later; a client with too much unread output is dropped."""
        if connection.unsent_bytes > _BACKLOG:
            self._drop(connection)
            return
        connection.unsent.append(packet)
        connection.unsent_bytes += len(packet)
        self._flush(connection)

    def _flush(self, connection: _Connection) -> None:
        while connection.unsent:
            try:
                connection.sock.send(connection.unsent[0])
            except BlockingIOError:
                break
            except OSError:
                self._drop(connection)
                return
            connection.unsent_bytes -= len(connection.unsent.popleft())
        self._set_interest(connection)

    def _drop(self, connection: _Connection) -> None:
        """Remove a disconnected client: kill its command, and end the container's input if it ends with this client."""
        self._connections.remove(connection)
        self._watch.remove(connection.sock.fileno())
        connection.sock.close()
        if connection.attached and self._spec.stdin_once:
            self._streams.end_input()
        if connection.command is not None:
            self._commands.let_go(connection.command)

    def _serve(self, connection: _Connection, events: int) -> None:
        if events & select.POLLOUT:
            self._flush(connection)
        if not events & ~select.POLLOUT or connection not in self._connections:
            return
        try:
            packet, descriptors = receive(connection.sock)
        except BlockingIOError:
            return
        except OSError:
            packet, descriptors = b"", []
        if not packet:
            self._drop(connection)
            return
        if events & select.POLLHUP and packet[:1] == Word.EXECUTE:  # The client has gone already.
            for descriptor in descriptors:
                os.close(descriptor)
            self._drop(connection)
            return
        self._obey(connection, packet[:1], packet[1:], descriptors)

    def _obey(self, connection: _Connection, word: bytes, body: bytes, descriptors: list[int]) -> None:
        if word == Word.ATTACH:
            connection.attached = True
            self._send(connection, Word.STARTED)
        elif word == Word.STDIN and connection.attached:
            self._take_input(connection, body)
        elif word == Word.RESIZE:
            self._streams.resize(*struct.unpack("!HH", body))
        elif word == Word.REOPEN:
            try:
                self._log.reopen()
                self._send(connection, Word.DONE)
            except OSError as error:
                self._send(connection, Word.REFUSED + str(error.errno).encode())
        elif word == Word.EXECUTE and not self._last_word:
            self._execute(connection, descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)

    def _take_input(self, connection: _Connection, data: bytes) -> None:
        """Handle a packet of input; an empty packet is the end of the client's input.

        That end also ends the container's input with `stdin_once`, and otherwise detaches the client. On a terminal it
        always detaches, because a terminal has no end of input (containerd, container_io.go, Attach).
        """
        if data:
            self._streams.take_input(data)
        elif self._spec.stdin_once and not self._spec.terminal:
            self._streams.end_input()
        else:
            connection.attached = False
            self._send(connection, Word.ENDED)

    def _execute(self, connection: _Connection, descriptors: list[int]) -> None:
        def answer(packet: bytes) -> None:
            if connection in self._connections:
                self._send(connection, packet)

        connection.command = self._commands.execute(descriptors, self._namespaces, answer)

    # The end.

    def _kill_all(self) -> None:
        """Kill the main process; after its end, `_finish` kills all others."""
        if self._main and self._status is None:
            os.kill(self._main, signal.SIGKILL)

    def _reap(self, wake: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(wake, 512):
                pass
        while self._status is None:  # Once the main process has ended, `_finish` kills and reaps the others.
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            self._note_end(pid, os.waitstatus_to_exitcode(status))
        if self._status is None:
            self._commands.kill_orphans()

    def _note_end(self, pid: int, code: int) -> None:
        code = 128 - code if code < 0 else code
        if pid == self._main:
            self._status = code
        else:
            self._commands.note_end(pid, code)

    def _finish(self, code: int) -> NoReturn:
        """Kill the remaining processes, log the last output, record the end, and exit."""
        ended = Ended(code, time.time_ns())
        with contextlib.suppress(OSError):  # The recording is retried below. The clients get the end in any case.
            note_ending(self._ending, ended)
        self._end_descendants()
        self._streams.finish()
        recorded = self._record(ended)
        self._last_word = Word.ENDED + format_ended(ended)
        for connection in list(self._connections):
            self._send(connection, self._last_word)
        self._flush_attached()
        # No other process has the exit code for a later server. Give up only if the container was removed.
        while not recorded and self._directory.exists():
            self._watch.handle(_RECORD_AGAIN_SECONDS)
            recorded = self._record(ended)
        os._exit(0)

    def _record(self, ended: Ended) -> bool:
        """Record the end; False if that fails now."""
        try:
            if self._ending < 0:  # The start failed before the file was reserved.
                write_record(self._directory, EXIT, ended)
                return True
            try:
                note_ending(self._ending, ended)
                publish_ending(self._directory)
            except FileNotFoundError:  # The reserved file is gone.
                write_record(self._directory, EXIT, ended)
        except OSError:
            return False
        return True

    def _end_descendants(self) -> None:
        """Kill our children until there are none left; orphans become our children.

        Processes that we may not kill (setuid programs of other users) are left.
        """
        while self._kill_children():
            options = 0
            for _ in range(_REAPED_AT_ONCE):
                try:
                    pid, status = os.waitpid(-1, options)
                except ChildProcessError:
                    return
                if not pid:
                    break
                self._note_end(pid, os.waitstatus_to_exitcode(status))
                options = os.WNOHANG

    def _kill_children(self) -> bool:
        """Send SIGKILL to our children, including zombies; False if we may signal none.

        First kill the whole cgroup, if there is one: otherwise some children might fork faster than others die.
        """
        children = children_of(os.getpid())
        if children and self._spec.cgroup_procs:
            with contextlib.suppress(OSError):  # The cgroup may be gone, or closed to us by now.
                kill.kill(tuple(Path(path).parent for path in self._spec.cgroup_procs))
        killed = False
        for pid in children:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                killed = True
        return killed

    def _flush_attached(self) -> None:
        """Give attached clients a moment to read the last output; the end is already recorded."""
        deadline = time.monotonic() + _FAREWELL_SECONDS
        while any(each.unsent for each in self._connections) and time.monotonic() < deadline:
            self._watch.handle(_FAREWELL_LOOK_SECONDS, only=select.POLLOUT | select.POLLHUP)


def show_role(role: str, spec: ProcessSpec) -> None:
    """Show this process's role in `ps`."""
    libc.name_process(f"syncpod-{role}")
    libc.title_process(f"syncpod-{role} {spec.id[:13]}")
