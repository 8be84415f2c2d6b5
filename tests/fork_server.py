"""Runs our programs as forks of a process that has imported everything, since imports take most of a short run.

The process that forks has no threads, connections or event loop. A fork is a process of its own with its own arguments,
environment and files, and runs the program of `python worker.py` or `syncpod` to its end.

A fork also has the program's command line in `ps`, by which a worker is identified.

Unlike real processes, all forks of one server share its hash seed, and so the order of sets. `tests/replay` checks that
no decision depends on that order: there, each run replays recorded histories under another seed.

As a module, this is the process that forks. It reads a request as a line of JSON, forks, and answers with the fork's
process id. At the fork's end it sends the exit code, in the form of `subprocess`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import IO, Any, Literal, TypedDict

from syncpod.kernel import libc
from tests.forked_worker import Main, exit_code_of, take_environment, with_a_worker

ROOT = Path(__file__).resolve().parents[1]
ROOM = 4_000
"""The size in bytes of the server's command line, in which its forks write their own."""

Program = Literal["worker", "syncpod"]
_SHOWN = {"worker": [str(ROOT / "worker.py")], "syncpod": ["-m", "syncpod.cli.main"]}
"""The arguments after the interpreter in a program's command line."""


class Files(TypedDict):
    """A program's working directory, and the paths of its standard streams."""

    cwd: str
    stdin: str
    stdout: str
    stderr: str


class Forked:
    """One forked process, with the methods of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = threading.Event()

    def end(self, code: int) -> None:
        """Record that it has ended with this exit code."""
        self.returncode = code
        self._ended.set()

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code. Raises subprocess.TimeoutExpired."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("a fork", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int, /) -> None:
        """Send it a signal, if it is alive."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended, and the server has not reported that yet
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The process that forks others. It ends with the process that started it, and its forks end with it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", " " * ROOM],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._starting = threading.Lock()
        self._started: SimpleQueue[Forked | None] = SimpleQueue()
        threading.Thread(target=self._listen, name="fork server", daemon=True).start()

    def start(self, program: Program, arguments: Sequence[str], files: Files, env: Mapping[str, str]) -> Forked:
        """Start a program. It opens its files itself, perhaps after this has returned; if it cannot, it ends with 1."""
        request = {"program": program, "arguments": list(arguments), "files": files, "env": dict(env)}
        assert self._process.stdin is not None
        with self._starting:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            forked = self._started.get()
        assert forked is not None, f"the fork server has ended: {self._process.wait()}"
        return forked

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def close(self) -> None:
        """End it and its forks."""
        self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        started: dict[int, Forked] = {}
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "code" in told:
                started.pop(told["pid"]).end(told["code"])
            else:
                started[told["pid"]] = Forked(told["pid"])
                self._started.put(started[told["pid"]])
        for orphan in started.values():  # it has died with its server, and a caller may wait for its end
            orphan.end(-signal.SIGKILL)
        self._started.put(None)


@functools.cache
def fork_server() -> ForkServer:
    """The fork server of this process, started when it is first asked for and ended when the process ends."""
    server = ForkServer()
    atexit.register(server.close)
    return server


def start_worker(
    command: Sequence[str], *, cwd: Path, stdout: IO[bytes], stderr: IO[bytes], env: Mapping[str, str]
) -> Forked:
    """Start a worker like `subprocess.Popen`, from a command `python worker.py ...`."""
    files = Files(cwd=str(cwd), stdin=os.devnull, stdout=stdout.name, stderr=stderr.name)
    return fork_server().start("worker", command[2:], files, env)


def run_syncpod(
    arguments: Sequence[str], *, env: Mapping[str, str], stdin: str = "", seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run the command like `subprocess.run`. Raises subprocess.TimeoutExpired after this many seconds."""
    with TemporaryDirectory() as directory:
        paths = [Path(directory, name) for name in ("stdin", "stdout", "stderr")]
        for path, text in zip(paths, (stdin, "", ""), strict=True):
            path.write_text(text)
        given, out, errors = paths
        files = Files(cwd=str(Path.cwd()), stdin=str(given), stdout=str(out), stderr=str(errors))
        forked = fork_server().start("syncpod", arguments, files, env)
        try:
            code = forked.wait(seconds)
        except BaseException:  # the time is over, or the test is
            forked.kill()
            raise
        return subprocess.CompletedProcess(arguments, code, out.read_text(), errors.read_text())


# --- the process itself: one thread, so that no lock is held when it forks --------------------------------------------


def _serve() -> None:
    import worker  # what takes the time; the tests' own process has no use for it
    from qa.fault_points import cri_client
    from syncpod.cli import main as syncpod
    from syncpod.cli.manual import commands_of
    from syncpod.cli.program import program

    _import_late_modules()

    def worker_with_fault_points(arguments: list[str]) -> int:
        return worker.main(arguments, functools.partial(cri_client, environ=os.environ))

    mains: dict[str, Main] = {
        "worker": worker_with_fault_points,
        "syncpod": with_a_worker(syncpod.run, worker_with_fault_points),
    }
    list(commands_of(program()))  # kept, for each command that is forked
    gc.collect()
    gc.freeze()  # a fork that collects garbage would copy all of it: a tenth of a second of CPU for each worker
    ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests: we end when they do
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
                for request in map(json.loads, requests):
                    _fork(mains[request["program"]], request)


def _import_late_modules() -> None:
    """Import the modules that programs import late, so that not each fork must import them."""
    for name in ("syncpod.cli", "syncpod.temporal", "activities"):
        for each in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(each.name)
    for name in ("temporalio.plugin", "yaml", "encodings.idna"):
        importlib.import_module(name)


def _fork(main: Main, request: dict[str, Any]) -> None:
    server = os.getpid()
    pid = os.fork()
    if not pid:
        libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:  # it has died earlier, so no report will come
            os.kill(os.getpid(), signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        libc.title_process("\0".join([sys.executable, *_SHOWN[request["program"]], *request["arguments"], ""]))
        os._exit(_run(main, request))
    _say(pid=pid)


def _reaped() -> Iterator[tuple[int, int]]:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended[0], os.waitstatus_to_exitcode(ended[1])


def _say(**told: int) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def _run(main: Main, request: dict[str, Any]) -> int:
    try:
        _open(request["files"])
    except OSError:
        traceback.print_exc()
        return 1
    take_environment(request["env"])
    sys.argv[1:] = request["arguments"]
    return exit_code_of(main, request["arguments"])


def _open(files: Files) -> None:
    os.chdir(files["cwd"])
    given = os.open(files["stdin"], os.O_RDONLY)
    output = os.open(files["stdout"], os.O_WRONLY | os.O_TRUNC)
    errors = os.open(files["stderr"], os.O_WRONLY | os.O_APPEND)
    for opened, standard in ((given, 0), (output, 1), (errors, 2)):
        os.dup2(opened, standard)
        os.close(opened)


if __name__ == "__main__":
    _serve()
