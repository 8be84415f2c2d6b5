"""Forked programs behave as processes that were started, and the end of the server ends them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
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


def test_a_process_that_has_just_ended_can_be_killed() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    forked = Forked(ended.pid)
    forked.kill()
    assert forked.poll() is None  # nobody has said yet that it has ended


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
