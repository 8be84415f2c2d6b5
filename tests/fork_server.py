"""Workers as forks of one process that has imported everything: starting one anew is two thirds importing.

What is forked has done nothing yet: no thread, no connection, no event loop. It is a process of its own with its own
arguments, environment and files, and runs `worker.main` to its end, as `python worker.py` does.

Run as a module it is that process. It reads a request in a line of JSON, forks, and answers with the worker's process
id. When a worker has ended it says so, with the exit code as `subprocess` has it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import IO

ROOT = Path(__file__).resolve().parents[2]


class ForkedWorker:
    """One worker: what `subprocess.Popen` is to others."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = threading.Event()

    def end(self, code: int) -> None:
        """Note that it has ended with this exit code."""
        self.returncode = code
        self._ended.set()

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit code. Raises subprocess.TimeoutExpired."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("forked worker", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int, /) -> None:
        """Send it a signal, if it lives."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The process that workers are forked from. It ends with the process that started it; its workers do not."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.fork_server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._starting = threading.Lock()
        self._started: SimpleQueue[ForkedWorker | None] = SimpleQueue()
        threading.Thread(target=self._listen, name="fork server", daemon=True).start()

    def start(
        self, command: Sequence[str], *, cwd: Path, stdout: IO[bytes], stderr: IO[bytes], env: Mapping[str, str]
    ) -> ForkedWorker:
        """Start `python worker.py ...`; its arguments are the third and later ones of the command."""
        request = {
            "arguments": command[2:],
            "cwd": str(cwd),
            "stdout": stdout.name,
            "stderr": stderr.name,
            "env": dict(env),
        }
        assert self._process.stdin is not None
        with self._starting:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            worker = self._started.get()
        assert worker is not None, f"the fork server has ended: {self._process.wait()}"
        return worker

    def close(self) -> None:
        """End it; its workers must have ended."""
        self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        workers: dict[int, ForkedWorker] = {}
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "code" in told:
                workers.pop(told["pid"]).end(told["code"])
            else:
                workers[told["pid"]] = ForkedWorker(told["pid"])
                self._started.put(workers[told["pid"]])
        self._started.put(None)


@functools.cache
def fork_server() -> ForkServer:
    """The fork server of this process, started when it is first asked for and ended when the process ends."""
    server = ForkServer()
    atexit.register(server.close)
    return server


def start_worker(
    command: Sequence[str], *, cwd: Path, stdout: IO[bytes], stderr: IO[bytes], env: Mapping[str, str]
) -> ForkedWorker:
    """Start a worker from the fork server of this process, as `subprocess.Popen` would start `python worker.py`."""
    return fork_server().start(command, cwd=cwd, stdout=stdout, stderr=stderr, env=env)


# --- the process itself: one thread, so that no lock is held when it forks --------------------------------------------


def _serve() -> None:
    import worker  # what takes the time; the tests' own process has no use for it

    ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        unread = b""
        while True:
            for key, _ in selector.select():
                if key.fd == ended:
                    os.read(ended, 4096)
                    for pid, code in _reaped():
                        _say(pid=pid, code=code)
                    continue
                if not (read := os.read(key.fd, 1 << 20)):
                    return
                *requests, unread = (unread + read).split(b"\n")
                for request in requests:
                    _fork(worker.main, json.loads(request))


def _fork(main: object, request: dict[str, object]) -> None:
    pid = os.fork()
    if not pid:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os._exit(_run(main, request))
    _say(pid=pid)


def _reaped() -> Iterator[tuple[int, int]]:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended[0], os.waitstatus_to_exitcode(ended[1])


def _say(**told: int) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def _run(main: object, request: dict[str, object]) -> int:
    assert callable(main)
    os.chdir(str(request["cwd"]))
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(str(request["stdout"]), os.O_WRONLY | os.O_TRUNC)
    log = os.open(str(request["stderr"]), os.O_WRONLY | os.O_APPEND)
    for opened, standard in ((nothing, 0), (output, 1), (log, 2)):
        os.dup2(opened, standard)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    try:
        code = int(main(request["arguments"]))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    logging.shutdown()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    return code


if __name__ == "__main__":
    _serve()
