"""The choice of a runtime, the path of its socket, and what `--purge` may remove.

Holds: A node with pods keeps its name, its runtime and its Temporal cluster.
Holds: A second `up` changes nothing, and `down` leaves no process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine import purge as purging
from syncpod.cli.machine import runtime_process
from syncpod.cli.machine.runtime_choice import choose, endpoint_of, require_same_name
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import MARK, prepare
from syncpod.cli.orphans import runtime_cleanup
from syncpod.cri import endpoint
from syncpod.cri.port import SandboxSummary
from syncpod.kernel.cgroupfs import whole_hierarchies
from syncpod.kernel.mountinfo import read_mounts
from syncpod.kernel.mounting import bind, is_mount, may_mount, mount_tmpfs, unmount
from syncpod.kernel.procfs import identify
from syncpod.kernel.tree_removal import remove_tree
from syncpod.node.log_links import make_log_link
from syncpod.settings.kept import KeptSettings, read_kept_settings, write_kept_settings
from syncpod.settings.node import NodeSettings, node_settings
from syncpod.settings.process_records import RuntimeRecord, recorded_runtime, write_runtime
from syncpod.settings.worker_record import WorkerRecord, write_worker_record
from syncpod.translation.names import NODE_LABEL
from tests.cli.conftest import program

UID = "0b5e7f0e-29ab-4c58-a1b5-d0b2a2b1a9a1"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeSettings:
    """A node on a machine with no runtime."""
    monkeypatch.delenv("CONTAINER_RUNTIME_ENDPOINT", raising=False)
    monkeypatch.setattr(endpoint, "WELL_KNOWN", (str(tmp_path / "containerd.sock"), str(tmp_path / "crio.sock")))
    return settings(state_dir=str(tmp_path / "state"))


@contextmanager
def listening(path: Path) -> Iterator[str]:
    """A socket that accepts connections and sends nothing."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield f"unix://{path}"


def record_runtime(here: NodeSettings, *, alive: bool, detached: bool = True, simulated: bool = False) -> RuntimeRecord:
    """Record an embedded runtime in the state directory."""
    me = identify(os.getpid())
    assert me is not None
    prepare(here.state_dir)
    record = RuntimeRecord(
        me if alive else replace(me, started=1), f"unix://{here.state_dir}/runtime/cri.sock", simulated, detached
    )
    write_runtime(here.state_dir, record)
    return record


def test_without_a_runtime_the_embedded_one_is_chosen_and_the_tried_sockets_listed(here: NodeSettings) -> None:
    choice = choose(here)
    assert choice.embedded and not choice.simulated
    assert choice.why.startswith("no containerd or CRI-O: ")
    assert "containerd.sock (missing)" in choice.why and "crio.sock (missing)" in choice.why
    assert choice.why.endswith("without isolation") and "\n" not in choice.why


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use every socket")
def test_an_inaccessible_socket_is_skipped(here: NodeSettings, tmp_path: Path) -> None:
    with listening(tmp_path / "containerd.sock"):
        (tmp_path / "containerd.sock").chmod(0)
        assert "containerd.sock (permission denied)" in choose(here).why


def test_a_listener_that_does_not_speak_cri_is_skipped(
    here: NodeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syncpod.cli.machine.runtime_choice._PATIENCE_SECONDS", 0.2)
    with listening(tmp_path / "containerd.sock"):
        choice = choose(here)
    assert choice.embedded and "containerd.sock (does not answer: " in choice.why


def test_a_named_runtime_that_is_missing_is_refused(here: NodeSettings) -> None:
    named = replace(here, runtime_endpoint="/none/cri.sock")
    with pytest.raises(BadInput, match=r"no container runtime at /none/cri\.sock .*which CONTAINER_RUNTIME_ENDPOINT"):
        choose(named)
    with pytest.raises(BadInput) as refused:
        choose(named, asked="/none/cri.sock")
    assert str(refused.value) == (
        "no container runtime at /none/cri.sock (missing), which --runtime-endpoint names: "
        "start the runtime or correct its name"
    )


def test_without_a_runtime_the_error_names_up_and_the_state_directory(here: NodeSettings, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        endpoint_of(here.state_dir)
    assert f"neither a worker nor an embedded runtime serves {here.state_dir}" in str(refused.value)
    assert "start them with `syncpod up`, or name the state directory of those that run" in str(refused.value)
    assert "containerd.sock (missing)" in str(refused.value) and "\n" not in str(refused.value)


def test_an_embedded_runtime_with_pods_is_kept(here: NodeSettings) -> None:
    for alive in (True, False):
        record_runtime(here, alive=alive, simulated=True)
        choice = choose(here)
        assert choice.embedded and choice.simulated and "simulates" in choice.why
    with pytest.raises(BadInput, match="runs real processes"):
        record_runtime(here, alive=True)
        choose(here, simulate=True)


def test_a_manually_started_embedded_runtime_without_pods_is_forgotten(here: NodeSettings) -> None:
    record_runtime(here, alive=False, detached=False)
    assert choose(here).why.startswith("no containerd")
    (here.state_dir / "runtime" / "sandboxes" / "a").mkdir(parents=True)
    assert choose(here).why.startswith("the embedded runtime has ended: it is started again")


def test_the_runtime_of_a_running_worker_is_chosen(here: NodeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(here.state_dir)
    worker = WorkerRecord(os.getpid(), "vm/1/1", "vm", "unix:///run/a.sock", "a 1", "127.0.0.1:1", "default", "q", 1)
    write_worker_record(here.state_dir, worker)
    monkeypatch.setattr("syncpod.settings.worker_record._is_worker", lambda pid: True)
    assert choose(here).endpoint == "unix:///run/a.sock"
    with pytest.raises(BadInput, match=r"runs pods on unix:///run/a\.sock"):
        choose(here, embedded=True)


def keep(here: NodeSettings, endpoint: str) -> NodeSettings:
    """Record a node that was started on a runtime, with its settings for the next start."""
    prepare(here.state_dir)
    given = {"SYNCPOD_NODE": "vm", "CONTAINER_RUNTIME_ENDPOINT": endpoint}
    write_kept_settings(here.state_dir, KeptSettings(given, "containerd"))
    return settings(state_dir=str(here.state_dir))


def record_pod(here: NodeSettings) -> None:
    (here.state_dir / "pods" / UID).mkdir(parents=True)
    (here.state_dir / "pods" / UID / "pod.json").write_text("{}")


def test_a_node_keeps_its_runtime_without_a_worker(here: NodeSettings, tmp_path: Path) -> None:
    record_runtime(here, alive=True)  # an embedded one was started by hand in addition
    with listening(tmp_path / "own.sock") as own, listening(tmp_path / "other.sock") as other:
        here = keep(here, own)
        (tmp_path / "link.sock").symlink_to(tmp_path / "own.sock")
        assert choose(here).endpoint == own == endpoint_of(here.state_dir)
        assert choose(replace(here, runtime_endpoint=str(tmp_path / "link.sock"))).endpoint == own
        record_pod(here)
        with pytest.raises(BadInput) as refused:
            choose(replace(here, runtime_endpoint=other))
        assert str(refused.value) == (
            f"node vm has pods on the runtime at {own}, so it cannot use {other}: name no other runtime, or end the "
            "pods first (`syncpod down`, or `syncpod delete pods --all`)"
        )
        with pytest.raises(BadInput, match="so it cannot use the embedded runtime"):
            choose(here, embedded=True)
    with pytest.raises(BadInput) as absent:
        choose(here)
    assert str(absent.value) == (
        f"the runtime that node vm was started with does not answer at {own} (connection refused: nothing listens "
        "there any more): start it (`syncpod up` starts an embedded one)"
    )


@pytest.mark.parametrize("damage", [b'{"process": {\xf2', b"", None])
def test_an_embedded_runtime_whose_record_is_damaged_starts_again_as_the_user_says(
    here: NodeSettings, damage: bytes | None
) -> None:
    """Only the record shows whether it simulates. Before, `up` suggested `up` itself, and refused `--embedded`."""
    record = record_runtime(here, alive=False)
    (here.state_dir / "runtime" / "sandboxes" / "one").mkdir(parents=True)
    keep(here, record.endpoint)
    file = here.state_dir / "runtime.json"
    file.unlink() if damage is None else file.write_bytes(damage)
    with pytest.raises(BadInput, match=r"runtime\.json: is missing or damaged.*`syncpod up --embedded`.*`--simulate`"):
        choose(here)
    for simulate in (False, True):
        choice = choose(here, embedded=not simulate, simulate=simulate)
        assert (choice.embedded, choice.simulated) == (True, simulate)


def test_a_node_without_pods_may_change_its_runtime_or_name(here: NodeSettings, tmp_path: Path) -> None:
    with listening(tmp_path / "other.sock") as other:
        here = keep(here, "unix:///none.sock")
        assert choose(replace(here, runtime_endpoint=other)).endpoint == other
        assert choose(here, embedded=True).embedded
        require_same_name(replace(here, node="another"))
        record_pod(here)
        require_same_name(here)
        with pytest.raises(BadInput, match="has pods of node vm, so it cannot become node another: keep the name"):
            require_same_name(replace(here, node="another"))


def test_an_embedded_runtime_with_a_moved_socket_is_still_the_nodes(here: NodeSettings) -> None:
    before = record_runtime(here, alive=False)
    here = keep(here, before.endpoint)
    record_pod(here)
    moved = replace(before, endpoint="unix:///run/user/0/syncpod-cri-1/cri.sock")
    runtime_process._note(here.state_dir, moved)
    assert choose(settings(state_dir=str(here.state_dir))).embedded
    assert read_kept_settings(here.state_dir).endpoint == moved.endpoint


@pytest.mark.parametrize("name", ["long" * 30, "a,b"])
def test_a_socket_with_a_path_that_grpc_cannot_use_is_placed_elsewhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    (tmp_path / "run").mkdir()
    near, far = tmp_path / "state", tmp_path / name
    prepare(near)
    prepare(far)
    assert runtime_process.choose_socket(near) == near / "runtime" / "cri.sock"
    elsewhere = runtime_process.choose_socket(far)
    assert elsewhere.is_relative_to(tmp_path / "run") and elsewhere.parent.stat().st_mode & 0o777 == 0o700
    me = identify(os.getpid())
    assert me is not None
    write_runtime(far, RuntimeRecord(me, f"unix://{elsewhere}", simulated=False, detached=True))
    assert runtime_process.choose_socket(far) == elsewhere, "the worker goes on using it"
    elsewhere.parent.chmod(0o777)
    assert runtime_process.choose_socket(far) != elsewhere, "anybody may listen there by now"
    elsewhere.parent.chmod(0o700)
    runtime_process.forget(far)
    assert not elsewhere.parent.exists() and recorded_runtime(far) is None


def test_the_machines_programs_precede_bundled_ones() -> None:
    environment = runtime_process.environment({"PATH": "/usr/bin", "TEMPORAL_API_KEY": "secret", "HOME": "/root"})
    assert environment["PATH"].startswith("/usr/bin:") and environment["HOME"] == "/root"
    assert "secret" not in environment.values()


# --- down -------------------------------------------------------------------------------------------------------------


def test_down_leaves_processes_alone_that_up_did_not_start(tmp_path: Path) -> None:
    state, script = tmp_path / "state", tmp_path / "worker.py"
    prepare(state)
    script.write_text("import time; print('up', flush=True); time.sleep(600)")
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as worker:
        try:
            assert worker.stdout is not None and worker.stdout.readline()
            record = WorkerRecord(worker.pid, "vm/1/1", "vm", "unix:///a", "a 1", "127.0.0.1:1", "default", "q", 1)
            write_worker_record(state, record)
            (state / "runtime" / "sandboxes" / "a").mkdir(parents=True)
            down = program("down", "--state-dir", str(state))
            assert (down.code, down.out) == (0, ""), down.err
            assert f"the worker (pid {worker.pid}) was not started by `syncpod up`; it keeps running" in down.err
            assert "the pods of node vm, whose worker `syncpod up` has not started, are not deleted" in down.err
            purge = program("down", "--purge", "--state-dir", str(state))
            assert purge.code == 1 and "is in use by what `syncpod up` has not started" in purge.err
            assert worker.poll() is None and (state / "runtime" / "sandboxes" / "a").is_dir()
        finally:
            worker.kill()


# --- purging ----------------------------------------------------------------------------------------------------------


def test_a_foreign_directory_is_never_purged(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "precious").write_text("")
    prepare(tmp_path)
    with pytest.raises(BadInput, match=f"lacks the file {MARK}"):
        purging.require_ours(tmp_path)


def test_a_directory_with_only_pod_logs_is_recognised_as_ours(tmp_path: Path) -> None:
    (tmp_path / "ours" / "pods" / f"default_web_{UID}" / "app").mkdir(parents=True)
    (tmp_path / "ours" / "pods" / UID).mkdir()
    purging.require_ours(tmp_path / "ours")
    purging.purge(tmp_path / "ours", tmp_path / "memory", tmp_path / "logs")
    assert not (tmp_path / "ours").exists()
    (tmp_path / "theirs" / "pods" / "whales").mkdir(parents=True)
    prepare(tmp_path / "theirs")
    with pytest.raises(BadInput, match=f"lacks the file {MARK}"):
        purging.require_ours(tmp_path / "theirs")


def test_purge_removes_our_files_and_keeps_foreign_ones(tmp_path: Path) -> None:
    state = tmp_path / "state"
    prepare(state)
    closed = state / "runtime" / "containers" / "c" / "work" / "work"
    closed.mkdir(parents=True)
    (closed / "file").write_text("")
    (state / "runtime" / "link").symlink_to(tmp_path)
    closed.chmod(0)
    (state / "notes").write_text("of somebody")
    purging.require_ours(state)
    with pytest.raises(Failure, match="it has files that are not syncpod's: notes"):
        purging.purge(state, tmp_path / "memory", tmp_path / "logs")
    assert [path.name for path in state.iterdir()] == ["notes"]
    (state / "notes").unlink()
    prepare(state)
    (state / "plugins_registry").mkdir()
    (state / "plugins" / "kubernetes.io" / "csi" / "driver").mkdir(parents=True)
    (state / "plugins" / "driver.sock").write_text("")
    with pytest.raises(Failure, match="it has files that are not syncpod's: plugins"):
        purging.purge(state, tmp_path / "memory", tmp_path / "logs")
    assert [path.name for path in (state / "plugins").iterdir()] == ["driver.sock"]
    (state / "plugins" / "driver.sock").unlink()
    prepare(state)
    (state / "plugins").mkdir(exist_ok=True)
    purging.purge(state, tmp_path / "memory", tmp_path / "logs")
    assert not state.exists() and tmp_path.exists()


def test_a_purge_that_was_interrupted_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    prepare(state)

    def broken(path: Path) -> None:
        if path.name == "log":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        remove_tree(path)

    with monkeypatch.context() as trouble:
        trouble.setattr("syncpod.cli.machine.purge.remove_tree", broken)
        with pytest.raises(Failure, match="cannot be removed"):
            purging.purge(state, tmp_path / "memory", tmp_path / "logs")
    purging.require_ours(state)
    purging.purge(state, tmp_path / "memory", tmp_path / "logs")
    assert not state.exists()


def test_purge_removes_our_logs_and_keeps_foreign_ones(tmp_path: Path) -> None:
    state, name = tmp_path / "state", f"default_web_{UID}"
    prepare(state)
    logs, beside = state / "var" / "podlogs", tmp_path / "podlogs"
    for directory in (logs, beside):
        (directory / name / "app").mkdir(parents=True)
    (logs / name / "app" / "0.log").touch()
    make_log_link(logs, logs / name / "app" / "0.log", "app", "c1")
    (state / "var" / "notes").touch()
    with pytest.raises(Failure, match="it has files that are not syncpod's: var"):
        purging.purge(state, tmp_path / "memory", logs)
    assert [path.name for path in (state / "var").iterdir()] == ["notes"]
    (state / "var" / "notes").unlink()
    prepare(state)
    (logs / name).mkdir(parents=True)
    purging.purge(state, tmp_path / "memory", logs)
    assert not state.exists() and (beside / name / "app").is_dir()


def test_purge_removes_empty_directories_of_logs_elsewhere(tmp_path: Path) -> None:
    state, logs, links = tmp_path / "state", tmp_path / "own" / "log", tmp_path / "own" / "containers"
    for place in (logs / "theirs", links):
        place.mkdir(parents=True)
    prepare(state)
    purging.purge(state, tmp_path / "memory", logs)
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["log"], "what has content stays"
    (logs / "theirs").rmdir()
    prepare(state)
    purging.purge(state, tmp_path / "memory", logs)
    assert list((tmp_path / "own").iterdir()) == []
    (tmp_path / "disk").mkdir()
    logs.symlink_to(tmp_path / "disk")
    prepare(state)
    purging.purge(state, tmp_path / "memory", logs)
    assert logs.is_symlink() and (tmp_path / "disk").is_dir()


def take_away(cgroup: Path) -> None:
    if cgroup.is_dir():
        cgroup.rmdir()


def test_a_removed_orphan_leaves_no_logs_and_no_cgroup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = node_settings(
        {}, node="here", state_dir=str(tmp_path / "state"), log_dir=str(tmp_path / "logs"), cgroup_parent=f"test-{UID}"
    )
    kept = tmp_path / "logs" / "default_other_1b5e7f0e-29ab-4c58-a1b5-d0b2a2b1a9a1"
    for place in (tmp_path / "logs" / f"default_web_{UID}" / "app", tmp_path / "state" / "pods" / UID, kept):
        place.mkdir(parents=True)
    cgroups = [
        each.path / f"test-{UID}" / "besteffort" / f"pod{UID}"
        for each in whole_hierarchies(read_mounts())
        if os.access(each.path, os.W_OK)
    ]
    orphan = SandboxSummary("1", 0, UID, "web", "default", "SANDBOX_NOTREADY", None, {NODE_LABEL: "here"}, {}, "")
    with contextlib.ExitStack() as stack:
        for cgroup in cgroups:
            for one in (*reversed(cgroup.parents[:2]), cgroup):
                one.mkdir()
                stack.callback(take_away, one)
        runtime_cleanup.remove_files(here, [orphan])
        assert not any(cgroup.exists() for cgroup in cgroups) and all(one.parent.is_dir() for one in cgroups)
    assert [path.name for path in (tmp_path / "logs").iterdir()] == [kept.name]
    assert not (tmp_path / "state" / "pods" / UID).exists() and capsys.readouterr().err == ""


def test_purge_removes_our_files_in_memory_and_keeps_foreign_ones(tmp_path: Path) -> None:
    state, memory = tmp_path / "state", tmp_path / "memory"
    for name in ("objects/secrets/default", "pods/uid/volumes"):
        (memory / name).mkdir(parents=True)
    (memory / "objects/secrets/default/a.json").touch()
    (memory / "notes").touch()
    prepare(state)
    purging.purge(state, memory, tmp_path / "logs")
    assert [path.name for path in memory.iterdir()] == ["notes"] and not state.exists()
    (memory / "notes").unlink()
    prepare(state)
    purging.purge(state, memory, tmp_path / "logs")
    assert not memory.exists()


def test_a_memory_directory_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    state, memory = tmp_path / "state", tmp_path / "memory"
    (tmp_path / "theirs" / "objects").mkdir(parents=True)
    memory.symlink_to(tmp_path / "theirs")
    prepare(state)
    with pytest.raises(Failure, match="is not a directory that this user owns"):
        purging.purge(state, memory, tmp_path / "logs")
    assert (tmp_path / "theirs" / "objects").is_dir() and state.is_dir()


@pytest.mark.skipif(not may_mount(), reason="mounting needs CAP_SYS_ADMIN")
def test_purge_unmounts_only_volumes_left_by_a_crash(tmp_path: Path) -> None:
    state, treasure = tmp_path / "a state", tmp_path / "treasure"
    pod = state / "pods" / "0b5e7f0e-29ab-4c58-a1b5-d0b2a2b1a9a1"
    in_memory = [pod / f"volumes/kubernetes.io~{plugin}/v" for plugin in ("empty-dir", "projected", "downward-api")]
    ours = [*in_memory, pod / "volume-subpaths/v/app/0"]
    theirs = [pod / "volumes/kubernetes.io~secret/v", state / "runtime/disk"]
    prepare(state)
    for place in (treasure, *ours, *theirs):
        place.mkdir(parents=True)
    (treasure / "gold").touch()
    try:
        for place in in_memory:
            mount_tmpfs(place, 1 << 20, 0o777)
        for place in (ours[-1], *theirs):
            bind(treasure, place)
        with pytest.raises(Failure) as refused:
            purging.purge(state, tmp_path / "memory", tmp_path / "logs")
        assert all(f"umount -- '{place}'" in str(refused.value) for place in theirs)
        assert all(is_mount(place) for place in (*ours, *theirs))
        for place in theirs:
            unmount(place)
        purging.purge(state, tmp_path / "memory", tmp_path / "logs")
    finally:
        for place in (*ours, *theirs):
            unmount(place)
    assert not state.exists() and (treasure / "gold").exists()


def test_a_directory_deeper_than_any_stack_or_path_is_purged(tmp_path: Path) -> None:
    state = tmp_path / "state"
    prepare(state)
    (state / "runtime").mkdir()
    deep = "import os\nfor _ in range(1500): os.mkdir('deep'); os.chdir('deep')"
    subprocess.run([sys.executable, "-c", deep], cwd=state / "runtime", check=True)
    purging.purge(state, tmp_path / "memory", tmp_path / "logs")
    assert not state.exists()


def test_a_workers_state_directory_is_recognised_as_ours(tmp_path: Path) -> None:
    for name in ("lock", "node.json"):
        (tmp_path / name).write_text("{}")
    prepare(tmp_path)
    purging.require_ours(tmp_path)


def test_a_runtime_that_answers_when_its_time_is_over_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, was_started = runtime_process.start(tmp_path / "state", simulated=True, environ=os.environ)
    try:
        monkeypatch.setattr(runtime_process, "READY_SECONDS", 0.0)
        assert was_started and runtime_process._gets_ready(record)
    finally:
        runtime_process.end_process(record.process)
