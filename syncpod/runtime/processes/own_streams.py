"""A supervisor's side of a container's own streams: output goes to the log and to clients, input comes from clients.

A client that does not read does not block others, and input that the container does not read blocks its senders.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import termios
from collections import deque
from collections.abc import Callable

from syncpod.runtime.port import ProcessSpec
from syncpod.runtime.processes import launch
from syncpod.runtime.processes.cri_log import CriLog
from syncpod.runtime.processes.packets import CHUNK, Word
from syncpod.runtime.processes.watching import Watch


class OwnStreams:
    """The streams of one container."""

    def __init__(
        self, spec: ProcessSpec, watch: Watch, log: CriLog, *, said: Callable[[bytes], None], moved: Callable[[], None]
    ) -> None:
        """Start without streams.

        `said` is called with each packet of output, and `moved` when input was written or waits.
        """
        self._spec = spec
        self._watch = watch
        self._log = log
        self._said = said
        self._moved = moved
        self._outputs: dict[int, bytes] = {}
        """The descriptors of the container's output, and the name of each stream."""
        self._input = -1
        self._input_queue: deque[bytes] = deque()
        self._input_ending = False
        self._hung_up = -1
        """The terminal while no process has its other side open. It is not polled then, since it would always be
        ready."""

    @property
    def input_waits(self) -> bool:
        """True if the container has unread input."""
        return bool(self._input_queue)

    @property
    def hung_up(self) -> bool:
        """True if no process has the container's terminal open. Only `look_at_terminal` updates this."""
        return self._hung_up >= 0

    def make(self) -> launch.Stdio:
        """Make the main process's streams, and watch our ends. Raises OSError."""
        if self._spec.terminal:
            master, slave = os.openpty()
            self._watch_output(master, b"stdout")
            self._input = master if self._spec.stdin else -1
            return slave, slave, slave
        output, error = os.pipe(), os.pipe()
        self._watch_output(output[0], b"stdout")
        self._watch_output(error[0], b"stderr")
        if not self._spec.stdin:
            return os.open(os.devnull, os.O_RDONLY), output[1], error[1]
        reading, self._input = os.pipe()
        os.set_blocking(self._input, False)
        return reading, output[1], error[1]

    def look_at_terminal(self) -> None:
        """Resume reading the terminal if a process has opened it again."""
        terminal = select.poll()
        terminal.register(self._hung_up, select.POLLIN)
        if any(events & select.POLLHUP for _, events in terminal.poll(0)):
            return
        descriptor, self._hung_up = self._hung_up, -1
        self._watch.add(descriptor, lambda events: self._read_output(descriptor, events))
        self._write_input()

    def take_input(self, data: bytes) -> None:
        """Write input at once or when there is space; input without a reader is lost."""
        if self._input >= 0:
            self._input_queue.append(data)
        self._write_input()

    def end_input(self) -> None:
        """End the input after the queued data."""
        self._input_ending = True
        self._write_input()

    def resize(self, columns: int, rows: int) -> None:
        """Resize the terminal, if there is one."""
        if self._spec.terminal:
            for terminal in self._outputs:
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def finish(self) -> None:
        """Read the rest of the output, and complete the log's last lines."""
        for descriptor in list(self._outputs):
            while self._pump(descriptor):
                pass
        for stream in self._outputs.values():
            self._log.end(stream)

    def _watch_output(self, descriptor: int, stream: bytes) -> None:
        os.set_blocking(descriptor, False)
        self._outputs[descriptor] = stream
        self._watch.add(descriptor, lambda events: self._read_output(descriptor, events))

    def _read_output(self, descriptor: int, events: int) -> None:
        """Handle ready descriptors of output. A terminal's descriptor is also for input."""
        if events & select.POLLOUT:
            self._write_input()
        if events & ~select.POLLOUT:
            self._pump(descriptor)

    def _pump(self, descriptor: int) -> bool:
        """Read once; return False if nothing was read."""
        stream = self._outputs[descriptor]
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            # No process has the terminal open. Keep our end: closing it would kill the container, which may open the
            # terminal again.
            if self._hung_up < 0:
                self._hung_up = descriptor
                self._watch.remove(descriptor)
            return False
        if not data:
            del self._outputs[descriptor]
            self._watch.remove(descriptor)
            self._log.end(stream)
            os.close(descriptor)
            return False
        self._log.write(stream, data)
        word = Word.STDOUT if stream == b"stdout" else Word.STDERR
        self._said(word + data)
        return True

    def _write_input(self) -> None:
        """Write waiting input. While some is left, nothing is read from attached clients."""
        while self._input >= 0 and self._input_queue:
            data = self._input_queue.popleft()
            try:
                rest = data[os.write(self._input, data) :]
            except BlockingIOError:
                rest = data
            except OSError:
                self._input_queue.clear()  # Nobody reads it any more.
                self._end_input()
                break
            if rest:
                self._input_queue.appendleft(rest)
                break
        if self._input_ending and not self._input_queue:
            self._end_input()
        waiting = bool(self._input_queue)
        if self._input >= 0:
            if self._input == self._hung_up:
                pass
            elif self._input in self._outputs:
                self._watch.change(self._input, select.POLLIN | (select.POLLOUT if waiting else 0))
            elif waiting:
                self._watch.add(self._input, lambda _: self._write_input(), select.POLLOUT)
            else:
                self._watch.remove(self._input)
        self._moved()

    def _end_input(self) -> None:
        if self._input >= 0 and self._input not in self._outputs:
            self._watch.remove(self._input)
            os.close(self._input)
            self._input = -1
