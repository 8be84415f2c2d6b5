"""The Temporal server of a command: a named one, else that of the state directory, and no other."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from syncpod.cli import console, local_processes
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.machine import dev_server, worker_process
from syncpod.cli.machine.listening_process import listens
from syncpod.cli.machine.processes import end
from syncpod.cli.machine.runtime_choice import Choice
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import ServerRecord, prepare, running_server, write_server
from syncpod.cli.main import run
from syncpod.cli.temporal import session
from syncpod.cli.view.progress import hindrances
from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.kernel.procfs import ProcessIdentity, identify
from syncpod.settings.kept import KeptSettings, write_kept_settings
from syncpod.settings.node import NodeSettings
from syncpod.settings.worker_record import WorkerRecord, write_worker_record
from syncpod.signing.keys import make_signing_keys
from syncpod.temporal import plugin
from syncpod.temporal.own_server import cluster_identity
from tests.cli.conftest import program
from tests.cli.pods import pod
from tests.runtimes.ports import free_port, free_ports
from tests.runtimes.processes import kill
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which no server is named."""
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)


@contextmanager
def started(state: Path) -> Iterator[ServerRecord]:
    """A server of a state directory."""
    record, child = dev_server.start(state, ui=True)
    assert child is not None
    try:
        yield record
    finally:
        end(record.process, patience_seconds=10)
        child.wait()


def visibility_indexes(state: Path) -> set[str]:
    """The named indexes of the server's visibility table."""
    with contextlib.closing(sqlite3.connect(state / "temporal" / "temporal.db")) as database:
        rows = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql != ''"
        )
        return {name for (name,) in rows}


def test_a_server_writes_no_index_that_a_node_has_no_use_for(tmp_path: Path) -> None:
    few = {"default_idx", "by_workflow_id", "by_status"}
    with started(tmp_path):
        assert visibility_indexes(tmp_path) == few
    with contextlib.closing(sqlite3.connect(tmp_path / "temporal" / "temporal.db")) as database:
        database.execute("CREATE INDEX by_task_queue ON executions_visibility (namespace_id, task_queue)")
    assert visibility_indexes(tmp_path) > few
    with started(tmp_path):
        assert visibility_indexes(tmp_path) == few


def test_a_servers_database_is_in_its_directory_whatever_characters_its_path_has(tmp_path: Path) -> None:
    state = tmp_path / "per%41 c?#"
    with started(state):
        assert visibility_indexes(state)
    assert [each.name for each in tmp_path.iterdir()] == [state.name]


def test_a_server_gives_back_what_only_its_start_has_needed_once_its_worker_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ServerRecord(ProcessIdentity(2**22 + 1, 1, "boot"), "127.0.0.1:1", "", True)
    worker = WorkerRecord(
        pid=1, identity="", node="n", endpoint="", runtime="", address="", namespace="", task_queue="", boot=1
    )
    done: list[str] = []

    def begun(*_: object, **__: object) -> tuple[WorkerRecord, bool]:
        done.append("worker")
        return worker, True

    def refused(pid: int) -> int:
        done.append(f"pages of {pid}")
        raise PermissionError(errno.EPERM, "not root's")

    async def connected(_: object) -> None: ...

    monkeypatch.setattr(session, "connect", connected)
    monkeypatch.setattr(local_processes, "_start_runtime", lambda *_: (None, False))
    monkeypatch.setattr(worker_process, "start", begun)
    monkeypatch.setattr(dev_server, "free_program_pages", refused)
    choice = Choice(endpoint="unix:///run/none.sock")
    server = local_processes.Server({"target_host": own.address, "namespace": "default"}, own)
    assert local_processes.start_node(settings(state_dir=str(tmp_path)), choice, server).worker == worker
    assert done == ["worker", f"pages of {own.process.pid}"]


def test_an_empty_database_that_a_server_left_as_it_began_keeps_no_other_from_starting(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "temporal").mkdir(mode=0o700)
    (tmp_path / "temporal" / "temporal.db").touch()
    with started(tmp_path):
        assert visibility_indexes(tmp_path) == {"default_idx", "by_workflow_id", "by_status"}


def test_a_server_gets_no_settings_of_clients_and_no_exporter_of_the_workers_traces() -> None:
    """With OTEL_TRACES_EXPORTER=console it would not start."""
    given = {"PATH": "/bin", "TEMPORAL_API_KEY": "secret", "OTEL_TRACES_EXPORTER": "console", "USER": "me"}
    passed = {"PATH": "/bin", "USER": "me", "TEMPORAL_CONFIG_FILE": os.devnull}
    assert dev_server.environment(given) == passed | {"GOGC": "50"}


def test_a_server_keeps_less_garbage_than_go_does_unless_told_otherwise() -> None:
    assert dev_server.environment({})["GOGC"] == "50"
    assert dev_server.environment({"GOGC": "off"})["GOGC"] == "off"


def test_a_server_is_told_all_settings_that_spare_memory_and_knows_each(tmp_path: Path) -> None:
    """A later server would silently ignore an unknown key."""
    line = dev_server.command(database=tmp_path / "temporal.db", port=1, ui_port=None)
    given = {word.partition("=")[0] for word, before in zip(line[1:], line, strict=False) if before.startswith("--dyn")}
    assert given == {*dev_server.DYNAMIC_CONFIGURATION, *dev_server.MEMORY_CONFIGURATION}
    known = dev_server.program().read_bytes()
    assert [key for key in given if key.encode() not in known] == []


def test_the_process_listening_on_a_port_is_found() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
        assert listens(os.getpid(), address) is None, "bound is not listening"
        one.listen()
        assert listens(os.getpid(), address) is True
        assert listens(os.getppid(), address) is False
        assert listens(2**22 + 1, address) is False


@pytest.mark.parametrize("which", ["frontend", "UI"])
def test_a_server_that_loses_its_port_takes_the_next(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporal_server: DevServer
) -> None:
    """Another user's server got its port after we had looked: ours is the one that we return, not his."""
    theirs = {"frontend": temporal_server.port, "UI": temporal_server.ui_port}[which]
    monkeypatch.setattr(dev_server, {"frontend": "PORT", "UI": "UI_PORT"}[which], theirs)
    really, looks = dev_server._is_free, []

    def stale(port: int) -> bool:
        looks.append(port)
        return looks.count(port) == 1 if port == theirs else really(port)

    monkeypatch.setattr(dev_server, "_is_free", stale)
    with started(tmp_path / "state") as record:
        assert looks.count(theirs) > 1, "it had been found free"
        ports = dev_server._ports(record)
        assert theirs not in ports
        assert all(listens(record.process.pid, f"127.0.0.1:{port}") for port in ports)
        assert session.connection(str(tmp_path / "state"))["target_host"] == record.address


def test_two_servers_started_at_once_have_different_ports(tmp_path: Path) -> None:
    port, ui_port = free_port(), free_port()
    script = (
        "import sys; from pathlib import Path; from syncpod.cli.machine import dev_server\n"
        f"dev_server.PORT, dev_server.UI_PORT = {port}, {ui_port}\n"
        "sys.stdin.readline()\n"
        "record, child = dev_server.start(Path(sys.argv[1]))\n"
        "print(record.process.pid, record.address, flush=True); sys.stdin.readline()\n"
        "child.terminate(); child.wait()"
    )
    users = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    said = []
    for user in users:
        assert user.stdin is not None
        user.stdin.write("go\n")
        user.stdin.flush()
    for user in users:
        assert user.stdout is not None
        said.append(user.stdout.readline().split())
    try:
        assert said[0][1] != said[1][1]
        assert all(listens(int(pid), address) for pid, address in said)
    finally:
        for user in users:
            user.communicate("end\n", timeout=60)


def test_a_restarted_server_keeps_its_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev_server, "PORT", free_port())
    with started(tmp_path) as before:
        pass
    monkeypatch.setattr(dev_server, "PORT", free_port())
    with started(tmp_path) as again:
        assert again.address == before.address


@pytest.mark.parametrize(
    "arguments",
    [("get", "pods"), ("delete", "pods", "--all"), ("describe", "pod", "web"), ("history", "web"), ("worker",)],
)
def test_without_a_server_every_command_refuses(arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = program(*arguments, environ={"TEMPORAL_ADDRESS": "", "SYNCPOD_STATE_DIR": str(tmp_path)})
    assert (result.code, result.out) == (2, "")
    assert f"no Temporal server of yours runs in {tmp_path}: start one with `syncpod up`" in result.err
    assert "or name one in TEMPORAL_ADDRESS" in result.err and result.err.count("\n") == 1


def test_without_a_server_a_fleets_command_names_the_one_that_begins_it_for_a_fleet(tmp_path: Path) -> None:
    make_signing_keys(open_fleet(fleet_directory(tmp_path), now()).directory)
    result = program("fleet", "get", "nodes", environ={"TEMPORAL_ADDRESS": "", "SYNCPOD_STATE_DIR": str(tmp_path)})
    assert (result.code, result.out) == (2, "")
    assert "start one with `syncpod fleet up`, or name one in TEMPORAL_ADDRESS" in result.err


def test_another_users_server_at_the_usual_port_is_named_and_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporal_server: DevServer
) -> None:
    monkeypatch.setattr(session, "DEFAULT_ADDRESS", temporal_server.address)
    with pytest.raises(BadInput, match=f"is yours: TEMPORAL_ADDRESS={temporal_server.address}"):
        session.connection(str(tmp_path))
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_server.address)
    assert session.connection(str(tmp_path))["target_host"] == temporal_server.address


def keep(state: Path, cluster: str, address: str) -> None:
    """Record that a node of the state directory uses this cluster."""
    prepare(state)
    write_kept_settings(state, KeptSettings({"SYNCPOD_NODE": "vm"}, "containerd", cluster, address, "default"))


def test_only_the_nodes_own_server_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "somebody_listens", lambda _address: True)
    keep(tmp_path, "c/n", "db.example:7233")
    shown = program("get", "pods", environ={"SYNCPOD_STATE_DIR": str(tmp_path)})
    with pytest.raises(BadInput) as refused:
        session.connection(str(tmp_path))
    assert shown.err == f"syncpod: {refused.value}\n"
    assert str(refused.value).endswith("(the one that node vm was started with: TEMPORAL_ADDRESS=db.example:7233)")


def test_another_server_at_the_nodes_server_address_is_detected(temporal_server: DevServer, tmp_path: Path) -> None:
    here = {"SYNCPOD_STATE_DIR": str(tmp_path), "TEMPORAL_ADDRESS": temporal_server.address}
    keep(tmp_path, "another/one", temporal_server.address)
    note = f"Note: the Temporal server at {temporal_server.address} is not the one that has the pods of node vm: "
    assert program("get", "pods", environ=here).err.startswith(note)
    identity = asyncio.run(identity_of(temporal_server.address))
    keep(tmp_path, identity, temporal_server.address)
    assert "not about this node" not in program("get", "pods", environ=here).err


def test_a_named_server_that_is_not_the_nodes_own_is_noted(temporal_server: DevServer, tmp_path: Path) -> None:
    here = {"SYNCPOD_STATE_DIR": str(tmp_path), "TEMPORAL_ADDRESS": temporal_server.address}
    note = (
        "Note: TEMPORAL_ADDRESS, perhaps from the `syncpod env` of another node, names the Temporal server at "
        f"{temporal_server.address}, and node vm of {tmp_path} has its pods on the one at 127.0.0.1:1: what follows is "
        "not about this node; {} leads there\n"
    )
    keep(tmp_path, "another/one", "127.0.0.1:1")
    assert program("get", "pods", environ=here).err.startswith(note.format("TEMPORAL_ADDRESS=127.0.0.1:1"))
    me = identify(os.getpid())
    assert me is not None
    write_server(tmp_path, ServerRecord(me, "127.0.0.1:1", "", detached=True))
    assert program("get", "pods", environ=here).err.startswith(note.format("`unset TEMPORAL_ADDRESS`"))
    keep(tmp_path, asyncio.run(identity_of(temporal_server.address)), "db.example:7233")
    assert "not about this node" not in program("get", "pods", environ=here).err, (
        "it is the same server under another name"
    )


async def identity_of(address: str) -> str:
    return await cluster_identity(await connect(address))


def test_a_node_of_a_configured_server_returns_to_it(tmp_path: Path, temporal_server: DevServer) -> None:
    keep(tmp_path, asyncio.run(identity_of(temporal_server.address)), temporal_server.address)
    server = local_processes.start_server(settings(state_dir=str(tmp_path)))
    assert (server.config["target_host"], server.own, server.started) == (temporal_server.address, None, False)
    assert running_server(tmp_path) is None


def test_our_server_starts_again_though_its_address_is_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`syncpod env` has put it there. The ports are of this test alone: another server there would be used instead."""
    here = settings(state_dir=str(tmp_path))
    port, ui_port = free_ports(2)
    first = local_processes.start_server(here, local_processes.Ports(port, ui_port)).own
    assert first is not None
    end(first.process, patience_seconds=10)
    monkeypatch.setenv("TEMPORAL_ADDRESS", first.address)
    again = local_processes.start_server(here).own
    assert again is not None
    end(again.process, patience_seconds=10)
    assert again.address == first.address


def test_the_ports_of_our_server_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = settings(state_dir=str(tmp_path))
    port, ui_port = free_port(), free_port()
    server = local_processes.start_server(here, local_processes.Ports(port, ui_port)).own
    assert server is not None
    try:
        assert (server.address, server.ui) == (f"127.0.0.1:{port}", f"http://127.0.0.1:{ui_port}")
        assert (
            local_processes.start_server(here, local_processes.Ports(port)).own
            == server
            == local_processes.start_server(here).own
        )
        with pytest.raises(
            BadInput, match=f"port 1: the Temporal server runs already, at {server.address} with its UI"
        ):
            local_processes.start_server(here, local_processes.Ports(1))
    finally:
        end(server.process, patience_seconds=10)
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    with pytest.raises(BadInput, match=r"--port, --ui-port, --ui, --guard: .* the one at 127\.0\.0\.1:1 is used"):
        local_processes.start_server(here, local_processes.Ports(ui=ui_port))


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's server has a UI")
def test_roots_server_has_a_ui_only_if_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = settings(state_dir=str(tmp_path))
    monkeypatch.setattr(dev_server, "UI_PORT", free_port())
    server = local_processes.start_server(here, local_processes.Ports(free_port())).own
    assert server is not None
    try:
        assert server.ui == ""
        assert listens(server.process.pid, f"127.0.0.1:{dev_server.UI_PORT}") is None
        with pytest.raises(BadInput, match=rf"--ui: the Temporal .* already, at {server.address} without a UI"):
            local_processes.start_server(here, local_processes.Ports(has_ui=True))
    finally:
        end(server.process, patience_seconds=10)
    asked = local_processes.start_server(here, local_processes.Ports(has_ui=True)).own
    assert asked is not None
    try:
        assert asked.ui == f"http://127.0.0.1:{dev_server.UI_PORT}"
        assert listens(asked.process.pid, asked.ui.removeprefix("http://")) is True
    finally:
        end(asked.process, patience_seconds=10)


def test_a_killed_servers_port_is_not_used_if_another_listens_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev_server, "PORT", free_port())
    with started(tmp_path) as record:
        kill([record.process.pid])
    with socket.socket() as another:
        another.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        another.bind(("127.0.0.1", dev_server.PORT))
        another.listen()
        with pytest.raises(BadInput, match="no Temporal server of yours runs"):
            session.connection(str(tmp_path))


def test_a_command_says_which_silent_server_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "SILENCE_SECONDS", 0.0)
    monkeypatch.setattr(plugin, "ANSWER_TIMEOUT", timedelta(seconds=1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("TEMPORAL_ADDRESS", address)
        for arguments in (["get", "pods"], ["up", "--simulate", "--state-dir", str(tmp_path)]):
            assert run(arguments) == 2
            said, refusal, *_ = capsys.readouterr().err.splitlines()
            assert said == f"waiting up to 1 s for the Temporal server at {address} to answer"
            assert "no answer in 1 s" in refusal


def test_up_says_that_its_own_server_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For example, the server is stopped, or the machine is too busy."""
    monkeypatch.setattr(console, "SILENCE_SECONDS", 0.0)
    monkeypatch.setattr(dev_server, "_START_SECONDS", 1.0)
    silent = subprocess.Popen([sys.executable, "-c", _SILENT], stdout=subprocess.PIPE, text=True)
    try:
        assert silent.stdout is not None
        address = f"127.0.0.1:{silent.stdout.readline().strip()}"
        process = identify(silent.pid)
        assert process is not None
        prepare(tmp_path)
        write_server(tmp_path, ServerRecord(process, address, "", True))
        with pytest.raises(Failure) as failed:
            dev_server.start(tmp_path)
    finally:
        silent.kill()
        silent.communicate()
    server = f"the Temporal server at {address} (pid {silent.pid})"
    assert capsys.readouterr().err == f"waiting up to 1 s for {server} to answer\n"
    assert str(failed.value) == f"{server} has not answered for 1 s, though it runs"


_SILENT = """
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
time.sleep(600)
"""


def test_the_configuration_file_names_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporal.toml").write_text('[profile.default]\naddress = "named:7233"\n')
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "temporal.toml"))
    assert session.connection(str(tmp_path))["target_host"] == "named:7233"
    assert asyncio.run(_refusal()).startswith("no Temporal server at named:7233")


async def _refusal() -> str:
    with pytest.raises(plugin.NoServer) as refused:
        await plugin.connect()
    return str(refused.value)


# --- up ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def foreign_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerRecord:
    """A worker of the state directory that serves somebody's server, and was not started by `up`."""
    prepare(tmp_path)
    worker = WorkerRecord(os.getpid(), "vm/1/1", "vm", "unix:///run/a.sock", "a 1", "127.0.0.1:1", "default", "q", 1)
    write_worker_record(tmp_path, worker)
    monkeypatch.setattr("syncpod.settings.worker_record._is_worker", lambda pid: True)
    return worker


def test_no_server_is_started_beside_a_worker_that_serves_another(tmp_path: Path, foreign_worker: WorkerRecord) -> None:
    with pytest.raises(Failure, match=rf"serves Temporal 127\.0\.0\.1:1 .* with `kill {os.getpid()}`, or name its"):
        local_processes.start_server(settings(state_dir=str(tmp_path)))
    assert not (tmp_path / "server.json").exists()
    with pytest.raises(BadInput, match=r"your worker serves: TEMPORAL_ADDRESS=127\.0\.0\.1:1"):
        session.connection(str(tmp_path))


def test_ctrl_c_before_any_start_reports_nothing_as_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(here: NodeSettings, *_: object) -> local_processes.Server:
        raise KeyboardInterrupt

    monkeypatch.setattr(local_processes, "start_server", interrupted)
    monkeypatch.setenv("SYNCPOD_STATE_DIR", str(tmp_path))
    assert run(["up", "--simulate"]) == 130
    assert capsys.readouterr().err == "\nNothing was left running.\n"


@pytest.mark.parametrize("command", [["up", "--simulate"], ["fleet", "up"]], ids=" ".join)
def test_ctrl_c_in_the_first_moment_says_that_nothing_was_started(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It printed nothing while the settings were read, the runtime chosen and the manifests admitted."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("syncpod.cli.actions.up_checks.require_not_installed", interrupted)
    monkeypatch.setattr("syncpod.cli.actions.fleet_up.require_fleet_not_installed", interrupted)
    monkeypatch.setenv("SYNCPOD_STATE_DIR", str(tmp_path))
    assert run(command) == 130
    assert capsys.readouterr().err.startswith("\nNothing was ")


def test_an_interrupted_server_start_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(pid: int, address: str) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(dev_server, "listens", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dev_server.start(tmp_path)
    assert running_server(tmp_path) is None


def test_up_shows_why_pods_do_not_start() -> None:
    message = 'Back-off pulling image "no/such"'
    stuck = {"name": "app", "state": {"waiting": {"reason": "ImagePullBackOff", "message": message}}}
    done = {"name": "app", "state": {"terminated": {"exitCode": 0, "reason": "Completed", "message": "all is well"}}}
    fetched_pods = [FetchedPod(pod(stuck, phase="Pending"), {}, current=True), FetchedPod(pod(done), {}, current=True)]
    assert hindrances(fetched_pods) == [f"pod/web: ImagePullBackOff: container app: {message}"]


def test_a_workflow_status_unknown_to_the_sdk_is_reported_in_one_sentence(temporal_server: DevServer) -> None:
    async def work(_: Client) -> None:
        WorkflowExecutionStatus(8)  # what the SDK does with a paused one

    with pytest.raises(Failure, match="perhaps it is paused"):
        session.run_on({"target_host": temporal_server.address, "namespace": "default"}, work)


_SIGNALLED = """
import os, signal, subprocess, sys, threading, time
from syncpod.cli.commands.server import server
from syncpod.cli.machine import dev_server, worker_process
from syncpod.kernel.procfs import identify
from syncpod.cli.machine.state_directory import ServerRecord

def start(*_, **__):
    child = subprocess.Popen(["sleep", "60"])
    return ServerRecord(identify(child.pid), "127.0.0.1:1", "", detached=False), child

def asleep():
    return open(f"/proc/self/task/{os.getpid()}/stat").read().rpartition(")")[2].split()[0] == "S"

def interrupt():
    while signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, signal.default_int_handler) or not asleep():
        time.sleep(0.01)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    signal.pause()

dev_server.start = start
threading.Thread(target=interrupt, daemon=True).start()
server(state_dir=sys.argv[1])
"""
"""Runs `server` with a child process, where a thread other than the waiting one receives SIGTERM."""


def test_a_server_ends_by_a_signal_that_does_not_interrupt_the_wait_for_it(tmp_path: Path) -> None:
    prepare(tmp_path)
    subprocess.run([sys.executable, "-c", _SIGNALLED, str(tmp_path)], check=True, timeout=30)
