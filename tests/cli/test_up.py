"""`up` and `down`: everything that pods need on a machine, begun and ended, on a real containerd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Result, program
from tests.cli.machine import PODS, Run, bring_up, machine
from tests.runtimes.containerd import Containerd


@pytest.fixture(scope="module")
def environ(containerd16: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a machine."""
    with machine(containerd16.endpoint, tmp_path_factory.mktemp("up")) as environ:
        yield environ


@pytest.fixture(scope="module")
def upped(environ: dict[str, str]) -> Result:
    """What `up` said when it brought the pods up."""
    return bring_up(environ)


@pytest.fixture(scope="module")
def syncpod(environ: dict[str, str], upped: Result) -> Run:
    """Run commands where the pods are up."""
    assert upped.code == 0, upped.err

    def command(*arguments: str, stdin: str = "") -> Result:
        return program(*arguments, environ=environ, stdin=stdin)

    return command


def state_of(environ: dict[str, str]) -> Path:
    return Path(environ["SYNCPOD_STATE_DIR"])


def test_up_says_where_everything_is_and_what_to_do_next(upped: Result, environ: dict[str, str]) -> None:
    assert upped.code == 0, upped.err
    for part in ("UI ", "http://127.0.0.1:", environ["CONTAINER_RUNTIME_ENDPOINT"], "worker.log", "temporal.log"):
        assert part in upped.out
    assert "pod/writer created\npod/once created\n" in upped.out
    assert "writer   2/2     Running" in upped.out and "Completed" in upped.out
    assert upped.out.count("\n  syncpod ") == 3
    assert "`syncpod down` ends worker and server" in upped.out
    state = state_of(environ)
    private = [state, state / "log", state / "temporal", *state.glob("log/*"), *state.glob("temporal/*")]
    assert len(private) > 5 and all(path.stat().st_mode & 0o077 == 0 for path in private)


def test_a_second_up_uses_what_runs(syncpod: Run, environ: dict[str, str]) -> None:
    before = {name: (state_of(environ) / name).read_text() for name in ("server.json", "up-worker.json")}
    again = syncpod("up", "-f", "-", stdin=json.dumps(PODS))
    assert again.code == 0 and "pod/writer unchanged" in again.out
    assert "started" not in again.err
    assert before == {name: (state_of(environ) / name).read_text() for name in before}


def test_a_shell_that_knows_only_the_state_directory_uses_what_runs(upped: Result, environ: dict[str, str]) -> None:
    assert upped.code == 0, upped.err
    hidden = {"CONTAINER_RUNTIME_ENDPOINT": "", "SYNCPOD_NODE": "", "SYNCPOD_LOG_DIR": ""}
    known = {"SYNCPOD_STATE_DIR": environ["SYNCPOD_STATE_DIR"]}
    again = program("up", "-f", "-", environ=hidden | known, stdin=json.dumps(PODS))
    assert again.code == 0 and "pod/writer unchanged" in again.out, again.err
    assert "started" not in again.err and environ["SYNCPOD_NODE"] in again.out


def test_ctrl_c_leaves_everything_running_and_says_how_to_stop(syncpod: Run, environ: dict[str, str]) -> None:
    absent = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "absent"},
        "spec": {
            "hostNetwork": True,
            "containers": [{"name": "app", "image": "registry.invalid/none:1", "imagePullPolicy": "Never"}],
        },
    }
    command = [sys.executable, "-m", "syncpod.cli.main", "up", "-f", "-"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ, "TEMPORAL_CONFIG_FILE": os.devnull},
    )
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(json.dumps(absent))
    process.stdin.close()
    said = ""
    while "ErrImageNeverPull" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert "`syncpod delete pod absent` ends a pod" in process.stderr.read()
    assert syncpod("get", "pod", "absent", "--no-headers").out.split()[2] == "ErrImageNeverPull"
    waited = syncpod("apply", "-f", "-", "--wait", "--timeout", "1s", stdin=json.dumps(absent))
    assert waited.code == 1
    assert 'Container image "registry.invalid/none:1" is not present with pull policy of Never' in waited.err
    assert syncpod("delete", "absent").code == 0


def test_down_leaves_pods_running_and_up_finds_them_again(syncpod: Run, environ: dict[str, str]) -> None:
    def ids() -> list[str]:
        pod = json.loads(syncpod("get", "pod", "writer", "-o", "json").out)
        return [status["containerID"] for status in pod["status"]["containerStatuses"]]

    before = ids()
    ended = syncpod("down")
    assert ended.code == 0 and "worker ended" in ended.out and "Temporal server ended" in ended.out
    assert not (state_of(environ) / "server.json").exists()
    again = syncpod("up", "-f", "-", stdin=json.dumps(PODS))
    assert again.code == 0 and "pod/writer unchanged" in again.out, again.err
    assert ids() == before
