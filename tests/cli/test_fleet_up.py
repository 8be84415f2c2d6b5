"""``syncpod fleet up`` and ``down`` start and stop a fleet's server, worker and gate together."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.cli import local_processes
from syncpod.cli.machine import fleet_processes
from syncpod.cli.machine.state_directory import (
    FleetProcess,
    recorded_fleet_process,
    running_fleet_process,
    running_server,
    write_fleet_process,
)
from syncpod.cli.main import run
from syncpod.kernel.procfs import identify
from tests.cli.conftest import Result, program
from tests.cli.machine import remains
from tests.runtimes.ports import free_port


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a state directory; asserts that no fleet runs there at the end."""
    found = {"SYNCPOD_STATE_DIR": str(tmp_path / "fleet"), "TEMPORAL_ADDRESS": ""}
    yield found
    program("fleet", "down", environ=found)
    assert remains(found) == [], "nothing runs on"


def up(environ: dict[str, str], *flags: str) -> Result:
    return program("fleet", "up", *flags, environ=environ)


def pids(state: Path) -> tuple[int, ...]:
    server, worker, gate = running_server(state), *(running_fleet_process(state, part) for part in ("worker", "gate"))
    assert server is not None and worker is not None and gate is not None
    return server.process.pid, worker.process.pid, gate.process.pid


def test_a_fleet_is_served_and_ended_by_one_command_each(environ: dict[str, str]) -> None:
    state, listen = Path(environ["SYNCPOD_STATE_DIR"]), f"127.0.0.1:{free_port()}"
    first = up(environ, "--listen", listen, "--port", str(free_port()))
    assert first.code == 0, first.err
    assert first.out.startswith(f"the fleet is served: nodes join at {listen}; Temporal at 127.0.0.1:")
    started = pids(state)
    assert program("fleet", "invite", "n1", "-o", "-", environ=environ).code == 0
    assert program("fleet", "get", "nodes", environ=environ).code == 0, "its worker answers"

    again = up(environ)
    assert (again.code, again.err, again.out, pids(state)) == (0, "", first.out, started)
    other = up(environ, "--listen", "127.0.0.1:1")
    assert other.code == 2 and f"runs already, with --listen {listen}, not 127.0.0.1:1: end it first" in other.err
    kept = program("down", environ=environ)
    assert "the Temporal server keeps running for the fleet's worker (pid" in kept.err and pids(state) == started
    refused = program("fleet", "install", environ=environ)
    assert refused.code == 2 and "fleet down` ends that, so that systemd can serve it" in refused.err

    os.kill(started[2], signal.SIGKILL)
    assert up(environ).code == 0
    assert pids(state)[:2] == started[:2] and pids(state)[2] != started[2]

    ended = program("fleet", "down", environ=environ)
    assert ended.code == 0 and ended.out.count(" ended (pid ") == 3
    assert remains(environ) == []
    assert "Nothing to end" in program("fleet", "down", environ=environ).err
    assert "start one with `syncpod fleet up`" in program("fleet", "get", "nodes", environ=environ).err

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(listen.rpartition(":")[2])))
        taken.listen()
        failed = up(environ)
    assert failed.code == 1 and f"the fleet's gate did not start: the gate cannot serve at {listen}: " in failed.err
    assert up(environ).out == first.out, "where the gate listens is kept"


def test_a_worker_that_a_killed_command_has_not_recorded_is_ended(environ: dict[str, str]) -> None:
    state, flags = (
        Path(environ["SYNCPOD_STATE_DIR"]),
        ("--listen", f"127.0.0.1:{free_port()}", "--port", str(free_port())),
    )
    assert up(environ, *flags).code == 0
    lost = pids(state)[1]
    (state / "up-fleet-worker.json").unlink()
    again = up(environ)
    assert f"fleet's worker ended (pid {lost}): the command that started it had not recorded it" in again.err
    assert again.code == 0 and pids(state)[1] != lost


def test_a_server_that_a_node_uses_stays(environ: dict[str, str], tmp_path: Path) -> None:
    """The node's worker does not run; the record of `up` shows that its pods do."""
    state = Path(environ["SYNCPOD_STATE_DIR"])
    assert up(environ, "--listen", f"127.0.0.1:{free_port()}", "--port", str(free_port())).code == 0
    server = pids(state)[0]
    gone = {"pid": 1, "started": 1, "boot": "another"}
    worker = {"process": gone, "node": "n1", "log_dir": str(tmp_path), "endpoint": "", "address": "", "namespace": ""}
    (state / "up-worker.json").write_text(json.dumps({**worker, "own_server": True}))
    ended = program("fleet", "down", environ=environ)
    assert f"keeps running: the node of {state} uses it" in ended.err and ended.out.count(" ended (pid ") == 2
    found = running_server(state)
    assert found is not None and found.process.pid == server
    (state / "up-worker.json").unlink()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--listen", "7300"), "--listen: '7300' must be an address and a port"),
        (("--name", "a b"), "--name: 'a b' must be the name or the address of a host, without a port"),
    ],
)
def test_bad_input_starts_nothing(environ: dict[str, str], flags: tuple[str, ...], sentence: str) -> None:
    refused = up(environ, *flags)
    assert refused.code == 2 and sentence in refused.err
    assert not Path(environ["SYNCPOD_STATE_DIR"]).exists()


def test_a_record_of_a_process_that_has_ended_is_kept_but_counts_as_none(tmp_path: Path) -> None:
    me = identify(os.getpid())
    assert me is not None
    record = FleetProcess(me, "127.0.0.1:1", "default", "127.0.0.1:2", ["a"])
    write_fleet_process(tmp_path, "gate", record)
    assert recorded_fleet_process(tmp_path, "gate") == running_fleet_process(tmp_path, "gate") == record
    assert running_fleet_process(tmp_path, "worker") is None


def test_ctrl_c_names_what_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start_worker(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(local_processes, "start_server", lambda *_: local_processes.Server({"target_host": "a"}, None))
    monkeypatch.setattr(fleet_processes, "start_worker", start_worker)
    assert run(["fleet", "up", "--state-dir", str(tmp_path / "fleet")]) == 130
    assert capsys.readouterr().err == "\nNothing was left running.\n"
    me = identify(os.getpid())
    assert me is not None
    (tmp_path / "fleet").mkdir(exist_ok=True)
    write_fleet_process(tmp_path / "fleet", "worker", FleetProcess(me, "127.0.0.1:1", "default", "", []))
    assert run(["fleet", "up", "--state-dir", str(tmp_path / "fleet")]) == 130
    assert f"Running: fleet's worker (pid {os.getpid()}); `" in capsys.readouterr().err
