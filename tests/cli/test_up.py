"""`up` and `down` start and end everything that pods need on a machine, with real runtimes.

Holds: A second `up` changes nothing, and `down` leaves no process.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.kernel.procfs import identify
from syncpod.settings.directories import is_in_memory
from syncpod.settings.worker_record import read_worker_record
from tests.cli.conftest import Result, program, typed
from tests.cli.machine import PODS, RUNTIMES, Run, bring_up, machine, memory_of, remains
from tests.cli.up_processes import state_of
from tests.runtimes.processes import kill

pytestmark = pytest.mark.every_runtime(
    "`up` starts the embedded runtime itself, and takes another as it finds it", one_containerd=True
)


@pytest.fixture(scope="module", params=RUNTIMES)
def environ(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a machine."""
    with machine(request.param, request, tmp_path_factory.mktemp("up")) as environ:
        yield environ


@pytest.fixture(scope="module")
def upped(environ: dict[str, str]) -> Result:
    """The output of the `up` that started the pods."""
    return bring_up(environ, typed)  # whose worker is a process that was started, and not forked


@pytest.fixture(scope="module")
def syncpod(environ: dict[str, str], upped: Result) -> Run:
    """Run commands on the machine after `up`."""
    assert upped.code == 0, upped.err

    def command(*arguments: str, stdin: str = "") -> Result:
        return program(*arguments, environ=environ, stdin=stdin)

    return command


def test_up_prints_all_locations_and_the_next_commands(upped: Result, environ: dict[str, str]) -> None:
    assert upped.code == 0, upped.err
    socket = environ["CONTAINER_RUNTIME_ENDPOINT"] or f"unix://{state_of(environ)}/runtime/cri.sock"
    page = "http://127.0.0.1:" if os.geteuid() else "off, since this is root"
    for part in ("UI ", page, socket, environ["SYNCPOD_STATE_DIR"], "worker.log", "temporal.log"):
        assert part in upped.out
    if not environ["CONTAINER_RUNTIME_ENDPOINT"]:
        assert "runs pods as plain processes of this machine, without isolation" in upped.err
        assert "runtime.log" in upped.out and "(embedded: no isolation)" in upped.out
    assert ("/workflows?query=PodReady" in upped.out) == bool(os.geteuid())
    assert "pod/writer created\npod/once created\n" in upped.out
    assert "writer   2/2     Running" in upped.out
    assert re.search(r"^once +([01]/1 +(Running|Completed)) ", upped.out, re.MULTILINE), "it may end a moment later"
    assert len(commands_of(upped)) == 3 and all(Path(command[0]).name == "syncpod" for command in commands_of(upped))
    assert " down` everything" in upped.out
    address = json.loads((state_of(environ) / "server.json").read_text())["address"]
    told = re.search(r'^For the `temporal` CLI: eval "\$\(\S*syncpod env\)"$', upped.out, re.MULTILINE) is not None
    assert told == (address != "127.0.0.1:7233")
    state = state_of(environ)
    private = [state, state / "log", state / "temporal", *state.glob("log/*"), *state.glob("temporal/*")]
    assert len(private) > 5 and all(path.stat().st_mode & 0o077 == 0 for path in private)


def commands_of(upped: Result) -> list[list[str]]:
    """The commands that are suggested in the output."""
    return [shlex.split(line) for line in upped.out.partition("Try next:")[2].splitlines() if line.startswith("  ")]


def test_the_suggested_next_commands_work(upped: Result, environ: dict[str, str]) -> None:
    for command in commands_of(upped):
        line = [word for word in command if word != "-f"]  # which would go on
        line[line.index("-it") if "-it" in line else 0] = "-i" if "-it" in line else line[0]
        if "-i" in line and environ["CONTAINER_RUNTIME_ENDPOINT"]:
            continue  # there, input comes from a terminal only
        done = subprocess.run(
            line, input="echo ran; exit\n", env={**os.environ, **environ}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 and done.stdout, (line, done.stderr)


def test_a_second_up_uses_running_processes(syncpod: Run, environ: dict[str, str]) -> None:
    before = {name: (state_of(environ) / name).read_text() for name in ("server.json", "up-worker.json")}
    again = syncpod("up", "-f", "-", stdin=json.dumps(PODS))
    assert again.code == 0 and "pod/writer unchanged" in again.out
    assert "started" not in again.err and "Everything runs already" in again.err
    assert before == {name: (state_of(environ) / name).read_text() for name in before}
    address = json.loads(before["server.json"])["address"]
    named = program("up", environ={**environ, "TEMPORAL_ADDRESS": address})
    assert named.code == 0 and "Everything runs already" in named.err, "what `env` exports is its own server"
    assert "UI " in named.out


def test_up_leaves_a_worker_of_another_server_alone_and_starts_nothing(syncpod: Run, environ: dict[str, str]) -> None:
    other = program("up", environ={**environ, "TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert other.code == 1 and "not 127.0.0.1:1 namespace default: end it and its pods first with `" in other.err
    assert " down`" in other.err and "started" not in other.err and other.err.count("\n") == 1


def test_commands_find_running_processes_by_the_state_directory_alone(upped: Result, environ: dict[str, str]) -> None:
    assert upped.code == 0, upped.err
    hidden = {"CONTAINER_RUNTIME_ENDPOINT": "", "SYNCPOD_NODE": "", "SYNCPOD_LOG_DIR": ""}
    known = {"SYNCPOD_STATE_DIR": environ["SYNCPOD_STATE_DIR"]}
    again = program("up", "-f", "-", environ=hidden | known, stdin=json.dumps(PODS))
    assert again.code == 0 and "pod/writer unchanged" in again.out, again.err
    assert "started" not in again.err and environ["SYNCPOD_NODE"] in again.out


def test_ctrl_c_in_up_leaves_everything_running_and_says_how_to_stop(syncpod: Run, environ: dict[str, str]) -> None:
    absent = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "absent"},
        "spec": {
            "hostNetwork": True,
            "containers": [{"name": "app", "image": "registry.invalid/none:1", "imagePullPolicy": "Never"}],
        },
    }
    command = [sys.executable, "-m", "syncpod.cli.main", "up", "-f", "-", "--timeout", "100s"]
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
    assert process.wait(timeout=60) == 130
    left = process.stderr.read()
    assert "delete pod absent` ends a pod" in left and "describe pod absent` says what a pod waits for" in left
    why = 'container app: Container image "registry.invalid/none:1" is not present with pull policy of Never'
    assert f"pod absent: ErrImageNeverPull, 0/1 ready; {why}" in said
    assert syncpod("get", "pod", "absent", "--no-headers").out.split()[2] == "ErrImageNeverPull"
    upped = syncpod("up", "-f", "-", stdin=json.dumps(absent))  # without --timeout it does not wait for an image
    assert upped.code == 1 and f'pod "absent" is not ready: ErrImageNeverPull, {why}' in upped.err
    assert "The node keeps trying to pull the images: " in upped.err and " wait pod absent --for condition=Ready`" in (
        upped.err
    )
    waited = syncpod("apply", "-f", "-", "--wait", "--timeout", "1s", stdin=json.dumps(absent))
    assert waited.code == 1
    assert 'Container image "registry.invalid/none:1" is not present with pull policy of Never' in waited.err
    assert syncpod("delete", "absent").code == 0


def ids(syncpod: Run) -> list[str]:
    """The writer's containers."""
    pod = json.loads(syncpod("get", "pod", "writer", "-o", "json").out)
    return [status["containerID"] for status in pod["status"]["containerStatuses"]]


def test_pods_kept_by_down_are_found_by_the_next_up(syncpod: Run, environ: dict[str, str]) -> None:
    before = ids(syncpod)
    ended = syncpod("down", "--keep-pods")
    assert ended.code == 0 and "worker ended" in ended.out and "Temporal server ended" in ended.out
    assert "the pods keep running" in ended.out
    again = syncpod("up", "-f", "-", stdin=json.dumps(PODS))
    assert again.code == 0 and "pod/writer unchanged" in again.out, again.err
    assert ids(syncpod) == before


def test_up_restarts_killed_processes_which_find_their_pods(syncpod: Run, environ: dict[str, str]) -> None:
    before = ids(syncpod)
    killed = 0
    for name in ("runtime.json", "server.json", "up-worker.json"):
        if (state_of(environ) / name).exists():
            process = identify(json.loads((state_of(environ) / name).read_text())["process"]["pid"])
            assert process is not None
            kill([process.pid])
            killed += 1
    again = syncpod("up", "-f", "-", stdin=json.dumps(PODS))
    assert again.code == 0 and "pod/writer unchanged" in again.out, again.err
    assert again.err.count("started (pid ") == killed
    assert ids(syncpod) == before


def test_down_deletes_pods_even_without_a_worker(syncpod: Run, environ: dict[str, str]) -> None:
    process = identify(json.loads((state_of(environ) / "up-worker.json").read_text())["process"]["pid"])
    assert process is not None
    kill([process.pid])
    ended = syncpod("down")
    assert ended.code == 0, ended.err
    assert 'pod "writer" deleted' in ended.out and 'pod "once" deleted' in ended.out
    assert "No worker runs: one is started to delete the pods\n" in ended.err
    assert "which no workflow knew" not in ended.err, "the node itself removes what its pods have left"
    assert remains(environ) == []
    again = syncpod("up", "-f", "-", stdin=json.dumps(PODS))
    assert "pod/writer created" in again.out, "nothing of it was left to be found"


def test_secrets_are_kept_and_read_in_memory(syncpod: Run, environ: dict[str, str]) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"k": "hunter2"}}
    assert syncpod("apply", "-f", "-", stdin=json.dumps(secret)).out == "secret/keys created\n"
    kept = memory_of(environ) / "objects/secrets/default/keys.json"
    assert kept.is_file() and is_in_memory(kept)
    assert read_worker_record(state_of(environ)).memory_dir == str(memory_of(environ))  # type: ignore[union-attr]
    elsewhere = program("get", "secrets", environ={**environ, "SYNCPOD_MEMORY_DIR": "/tmp/elsewhere"})
    assert elsewhere.code == 2 and "name no other memory directory while it runs" in elsewhere.err
    assert syncpod("down").code == 0
    assert syncpod("get", "secrets", "-o", "name").out == "secret/keys\n", "only a purge takes them"


def test_down_with_purge_leaves_nothing(syncpod: Run, environ: dict[str, str]) -> None:
    down = syncpod("down", "--purge")
    assert down.code == 0, down.err
    assert down.out.endswith(f"{environ['SYNCPOD_STATE_DIR']} removed\n")
    assert not state_of(environ).exists() and remains(environ) == []
    assert not memory_of(environ).exists()
    assert list(Path(environ["SYNCPOD_LOG_DIR"]).glob("*")) == []
