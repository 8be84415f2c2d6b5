"""Workers as forks of one process that has imported everything: starting one anew is two thirds importing.

What is forked has done nothing yet: no thread, no connection, no event loop. It is a process of its own with its own
arguments, environment and files, and runs `worker.main` to its end, as `python worker.py` does.

Run as a module it is that process: it reads a request in a line of JSON, forks, writes the worker's process id, and
when the worker has ended its exit code, as `subprocess` has it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]


class ForkedWorker:
    """One worker: what `subprocess.Popen` is to others. One at a time."""

    def __init__(self, server: subprocess.Popen[bytes]) -> None:
        self._server = server
        self.pid = int(_line(server))
        self.returncode: int | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._await_end, name=f"end of worker {self.pid}", daemon=True).start()

    def _await_end(self) -> None:
        self.returncode = int(_line(self._server))
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
    """The process that workers are forked from; `close` ends it, as does `with`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.fork_server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def start(
        self, command: Sequence[str], *, cwd: Path, stdout: IO[bytes], stderr: IO[bytes], env: Mapping[str, str]
    ) -> ForkedWorker:
        """Start `python worker.py ...`, its arguments being the third and later of the command; none may still run."""
        request = {
            "arguments": command[2:],
            "cwd": str(cwd),
            "stdout": stdout.name,
            "stderr": stderr.name,
            "env": dict(env),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return ForkedWorker(self._process)

    def close(self) -> None:
        """End it; its worker must have ended."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _line(server: subprocess.Popen[bytes]) -> bytes:
    assert server.stdout is not None
    line = server.stdout.readline()
    assert line, f"the fork server has ended: {server.poll()}"
    return line


def _requests() -> Iterator[dict[str, object]]:
    for line in sys.stdin.buffer:
        yield json.loads(line)


def _serve() -> None:
    import worker  # what takes the time; the tests' own process has no use for it

    for request in _requests():
        pid = os.fork()
        if not pid:
            os._exit(_run(worker.main, request))
        _say(pid)
        _, status = os.waitpid(pid, 0)
        _say(os.waitstatus_to_exitcode(status))


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
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
