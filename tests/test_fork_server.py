"""Forked programs behave like started processes, and end with the server."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fork_server import Files, Forked, ForkServer, run_syncpod


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    made = ForkServer()
    yield made
    made.close()


def files(directory: Path, **changed: str) -> Files:
    given = {name: str(directory / name) for name in ("stdin", "stdout", "stderr")}
    for path in given.values():
        Path(path).touch()
    made: Files = {"cwd": str(directory), "stdin": given["stdin"], "stdout": given["stdout"], "stderr": given["stderr"]}
    made.update(changed)  # type: ignore[typeddict-item]
    return made


def test_a_command_gets_its_arguments_environment_and_input_and_its_code_comes_back(tmp_path: Path) -> None:
    env = {**os.environ, "SYNCPOD_STATE_DIR": str(tmp_path)}
    assert run_syncpod(["--version"], env=env).stdout.startswith("syncpod ")
    refused = run_syncpod(["apply", "-f", "-"], env=env, stdin="a: [")
    assert refused.returncode == 2
    assert refused.stderr.startswith("syncpod: ")


def test_a_program_that_cannot_begin_ends_and_the_next_one_runs(server: ForkServer, tmp_path: Path) -> None:
    absent = server.start("syncpod", ["--version"], files(tmp_path, cwd=str(tmp_path / "absent")), os.environ)
    assert absent.wait(60) == 1
    given = files(tmp_path)
    assert server.start("syncpod", ["--version"], given, os.environ).wait(60) == 0
    assert Path(given["stdout"]).read_text().startswith("syncpod ")


def test_a_forks_command_line_is_that_of_its_program(server: ForkServer, tmp_path: Path) -> None:
    given = files(tmp_path)
    Path(given["stdin"]).unlink()
    os.mkfifo(given["stdin"])
    forked = server.start("syncpod", ["apply", "-f", "-"], given, os.environ)
    with open(given["stdin"], "w"):  # noqa: PTH123  # opened when the fork has begun to read
        shown = Path(f"/proc/{forked.pid}/cmdline").read_text().rstrip("\0").split("\0")
    assert shown == [sys.executable, "-m", "syncpod.cli.main", "apply", "-f", "-"]
    assert forked.wait(60) == 2


def test_a_process_that_has_just_ended_can_be_killed() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    forked = Forked(ended.pid)
    forked.kill()
    assert forked.poll() is None  # its end has not been reported yet


def test_ctrl_c_does_not_end_the_server(server: ForkServer, tmp_path: Path) -> None:
    os.kill(server.pid, signal.SIGINT)
    assert server.start("syncpod", ["--version"], files(tmp_path), os.environ).wait(60) == 0


def test_what_a_dead_server_forked_is_ended_and_waited_for_by_nobody(tmp_path: Path) -> None:
    server = ForkServer()
    given = tmp_path / "fifo"
    os.mkfifo(given)
    held = os.open(given, os.O_RDWR)  # the command reads its input, which never comes
    try:
        reading = server.start("syncpod", ["apply", "-f", "-"], files(tmp_path, stdin=str(given)), os.environ)
        pidfd = os.pidfd_open(reading.pid)
        server.close()
        assert reading.wait(60) == -signal.SIGKILL
        assert select.select([pidfd], [], [], 60)[0], "it is dead"
        os.close(pidfd)
    finally:
        os.close(held)
    with pytest.raises(OSError):
        server.start("syncpod", ["--version"], files(tmp_path), os.environ)


UPS = """
import os, sys, time
from pathlib import Path
from syncpod.cli.machine.processes import start_detached
from tests.forked_worker import with_a_worker

def worker(arguments):
    line = Path("/proc/self/cmdline").read_text().rstrip("\\0").split("\\0")
    print(arguments, dict(os.environ), os.getsid(0) == os.getpid(), os.getcwd(), line[1:], flush=True)
    sys.exit("refused")

def up(arguments):
    command = [sys.executable, "/a/worker.py", *arguments[1:]]
    first, second = (start_detached(command, log=Path(log), environment={"A": "b"}) for log in ("first", "second"))
    while first.poll() is None or second.poll() is None:
        time.sleep(0.01)
    print(first.pid == second.pid, first.poll(), second.poll())
    return 7

sys.exit(with_a_worker(up, worker)(["up", "--node", "n1"]))
"""


def test_the_worker_of_up_is_a_fork_once_and_what_a_process_of_its_own_would_be(tmp_path: Path) -> None:
    """The second start would run a real process, here of a program that does not exist."""
    command = [sys.executable, "-c", UPS, " " * 200]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (7, "False 1 2\n"), done.stderr
    shown = ["/a/worker.py", "--node", "n1"]
    assert (tmp_path / "first").read_text() == f"{shown[1:]} {{'A': 'b'}} True / {shown}\nrefused\n"
    assert "/a/worker.py': [Errno 2]" in (tmp_path / "second").read_text()
