"""`logs` and `exec` on real runtimes."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from syncpod.settings.process_records import recorded_runtime
from tests.cli.conftest import Result, program
from tests.cli.machine import EMBEDDED, RUNTIMES, Run, bring_up, machine
from tests.runtimes.processes import kill


@pytest.fixture(scope="module", params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> str:
    """Each runtime in turn."""
    return str(request.param)


@pytest.fixture(scope="module")
def environ(
    runtime: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The environment of a machine with the runtime and running pods."""
    with machine(runtime, request, tmp_path_factory.mktemp("streams")) as environ:
        upped = bring_up(environ)
        assert upped.code == 0, upped.err
        _until_written(environ, "tick 10")
        yield environ


def _until_written(environ: dict[str, str], line: str, patience: float = 60.0) -> None:
    """Wait until the writer has written a line, so that the tests find it."""
    deadline = time.monotonic() + patience
    while line not in (written := program("logs", "writer", "-c", "app", environ=environ).out.splitlines()):
        assert time.monotonic() < deadline, written[-3:]
        time.sleep(0.2)


@pytest.fixture(scope="module")
def syncpod(environ: dict[str, str]) -> Run:
    """Run commands on the machine."""

    def command(*arguments: str, stdin: str = "") -> Result:
        return program(*arguments, environ=environ, stdin=stdin)

    return command


def test_logs_print_the_output_of_the_named_container(syncpod: Run) -> None:
    shown = syncpod("logs", "writer", "-c", "app").out.splitlines()
    assert sorted(shown[:2]) == ["err", "out"]
    assert shown[2] == f"{'long':>20000}|" and shown[3:5] == ["tick 1", "tick 2"]
    assert syncpod("logs", "writer", "setup").out == "set up\n"
    named = syncpod("logs", "writer", "--all-containers", "--prefix", "--tail", "1")
    assert [line.split("] ")[0] for line in named.out.splitlines()] == ["[pod/writer/setup", "[pod/writer/app"]
    stamped = syncpod("logs", "writer", "-c", "app", "--timestamps", "--tail", "1")
    assert stamped.out[:4].isdigit() and "T" in stamped.out.split()[0]
    limited = syncpod("logs", "writer", "-c", "app", "--limit-bytes", "5")
    assert (limited.code, len(limited.out)) == (0, 5)
    crowd = syncpod("logs", "writer", "--all-containers", "-f", "--max-log-requests", "2")
    assert (crowd.code, crowd.out) == (2, "")
    assert "3 containers would be followed, but at most 2 may be: raise --max-log-requests" in crowd.err
    before = syncpod("logs", "writer", "--all-containers", "--previous", "--ignore-errors")
    assert (before.code, before.out, before.err.count("previous terminated container")) == (0, "", 3)
    defaulted = syncpod("logs", "-l", "app=writer", "--since", "1h")
    assert len(defaulted.out.splitlines()) == 10
    assert 'Defaulted container "app" out of: app, side, setup (init)' in defaulted.err


def test_logs_of_the_previous_instance_are_kept(syncpod: Run) -> None:
    script = "test -e /tmp/data/x && exec sleep 3600; echo first; touch /tmp/data/x; exit 3"
    container: dict[str, object] = {"name": "app", "image": "busybox:1", "command": ["sh", "-c", script]}
    container["volumeMounts"] = [{"name": "data", "mountPath": "/tmp/data"}]
    spec: dict[str, object] = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container]}
    spec["volumes"] = [{"name": "data", "emptyDir": {}}]
    again = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "again"}, "spec": spec}
    assert syncpod("apply", "-f", "-", stdin=json.dumps(again)).code == 0
    restarted = "jsonpath={.status.containerStatuses[0].restartCount}=1"
    assert syncpod("wait", "pod/again", f"--for={restarted}", "--timeout", "60s").code == 0
    assert syncpod("logs", "again", "-p").out == "first\n"
    assert syncpod("delete", "again").code == 0
    none = syncpod("logs", "writer", "-c", "app", "--previous")
    assert (none.code, none.out) == (1, "")
    assert 'previous terminated container "app" in pod "writer" not found' in none.err


def test_following_logs_ends_with_the_container(syncpod: Run) -> None:
    assert syncpod("logs", "-f", "once").out == "try\n"


def test_following_the_logs_of_a_pod_that_is_deleted_ends_with_a_sentence(
    syncpod: Run, environ: dict[str, str]
) -> None:
    container = {"name": "app", "image": "busybox:1", "command": ["sh", "-c", "echo up; exec sleep 3600"]}
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "brief"}, "spec": spec}
    assert syncpod("apply", "-f", "-", "--wait", stdin=json.dumps(pod)).code == 0
    command = [sys.executable, "-m", "syncpod.cli.main", "logs", "-f", "brief"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={**os.environ, **environ}, **pipes) as following:
        assert following.stdout is not None and following.stdout.readline() == "up\n"
        assert syncpod("delete", "brief").code == 0
        out, err = following.communicate(timeout=60)
    assert (following.returncode, out) == (0, "")
    assert re.fullmatch(r'Note: pod "brief" (is being|has been) deleted, and logs nothing more\n', err), err


def test_a_command_runs_in_a_container_and_its_code_is_passed_on(syncpod: Run) -> None:
    ran = syncpod("exec", "writer", "-c", "side", "--", "sh", "-c", "echo out; echo err >&2; exit 42")
    assert (ran.code, ran.out, ran.err) == (42, "out\n", "err\n")
    large = syncpod("exec", "writer", "-c", "side", "--", "head", "-c", "3000000", "/dev/zero")
    assert (large.code, len(large.out)) == (0, 3_000_000)
    unknown = syncpod("exec", "writer", "-c", "side", "--", "frobnicate")
    assert unknown.code == 1 and "frobnicate" in unknown.err and unknown.err.count("\n") == 1
    ended = syncpod("exec", "once", "--", "true")
    assert (ended.code, ended.err) == (1, 'syncpod: container "app" in pod "once" does not run: exited 0\n')
    wrong = syncpod("exec", "writer", "-c", "none", "--", "true")
    assert wrong.code == 1 and 'container "none" is not in pod "writer", which has setup, app, side' in wrong.err


def test_input_from_a_pipe_ends(syncpod: Run) -> None:
    counted = syncpod("exec", "-i", "writer", "-c", "side", "--", "wc", "-c", stdin="x" * 1_000_000)
    assert (counted.code, counted.out.strip(), counted.err) == (0, "1000000", "")
    early = syncpod("exec", "-i", "writer", "-c", "side", "--", "head", "-n", "1", stdin="first\nsecond\n")
    assert (early.code, early.out) == (0, "first\n")


def test_exec_gives_a_command_a_terminal(syncpod: Run, environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "syncpod.cli.main", "exec", "-it", "writer", "-c", "side", "--", "sh"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, {**os.environ, **environ, "TERM": "xterm"})
    seen = b""

    def until(*signs: bytes) -> None:
        nonlocal seen
        deadline = time.monotonic() + 60
        while not any(sign in seen for sign in signs):
            assert select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0], seen
            seen += os.read(terminal, 4096)

    until(b"# ", b"$ ")
    os.write(terminal, b"trap 'echo interr''upted' INT; echo ar''med\r")
    until(b"armed")
    os.write(terminal, b"\x03\r")  # some shells look at their traps only after a line
    until(b"interrupted")
    os.write(terminal, b"tty; exit 5\r")
    until(b"/dev/pts/")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    os.close(terminal)


@pytest.mark.every_runtime("`up` starts the embedded runtime itself")
def test_a_killed_runtime_is_named_and_up_restarts_it(syncpod: Run, environ: dict[str, str], runtime: str) -> None:
    if runtime != EMBEDDED:
        pytest.skip("it is not ours to kill")
    record = recorded_runtime(Path(environ["SYNCPOD_STATE_DIR"]))
    assert record is not None
    kill([record.process.pid])
    for command in (("exec", "writer", "-c", "side", "--", "true"), ("logs", "writer", "-c", "app")):
        away = syncpod(*command)
        assert (away.code, away.out, away.err.count("\n")) == (1, "", 1)
        assert f"the runtime at {record.endpoint} does not answer: `" in away.err
        assert "syncpod up` starts it again" in away.err
    assert syncpod("up").code == 0
    assert syncpod("exec", "writer", "-c", "side", "--", "true").code == 0
