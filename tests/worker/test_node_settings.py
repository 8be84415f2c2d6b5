from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from syncpod.node_settings import (
    SettingsInvalid,
    WorkerRecord,
    node_settings,
    read_worker_record,
    remove_worker_record,
    write_worker_record,
)

RECORD = WorkerRecord(
    pid=7,
    identity="n1/m/3",
    node="n1",
    endpoint="unix:///run/containerd/containerd.sock",
    runtime="containerd 1.6.20",
    address="127.0.0.1:7233",
    namespace="default",
    task_queue="node/n1",
    boot=3,
)


def test_as_root_things_are_where_crictl_and_log_agents_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    settings = node_settings({})
    assert settings.node == socket.gethostname().lower()
    assert settings.state_dir == Path("/var/lib/syncpod")
    assert settings.log_dir == Path("/var/log/pods")
    assert settings.cgroup_parent == "syncpod"
    assert settings.runtime_endpoint is None
    assert not settings.allow_foreign_kubelet


@pytest.mark.parametrize("uid", [0, 1000])
def test_logs_lie_below_a_state_directory_that_is_named(uid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert node_settings({}, state_dir="/x").log_dir == Path("/x/pods")
    assert node_settings({"SYNCPOD_STATE_DIR": "/y"}).log_dir == Path("/y/pods")
    assert node_settings({"SYNCPOD_LOG_DIR": "/logs"}, state_dir="/x").log_dir == Path("/logs")


@pytest.mark.parametrize(
    ("environ", "home"),
    [({"XDG_STATE_HOME": "/x/state"}, "/x/state"), ({"HOME": "/home/me"}, "/home/me/.local/state")],
)
def test_without_root_everything_is_in_ones_own_state(
    environ: dict[str, str], home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    settings = node_settings(environ)
    assert settings.state_dir == Path(home) / "syncpod"
    assert settings.log_dir == Path(home) / "syncpod" / "pods"


def test_what_is_given_goes_over_the_environment_and_that_over_the_defaults() -> None:
    environ = {
        "SYNCPOD_NODE": "from-env",
        "SYNCPOD_STATE_DIR": "/env/state",
        "SYNCPOD_LOG_DIR": "/env/logs",
        "SYNCPOD_CGROUP_PARENT": "/env/pods/",
        "SYNCPOD_ALLOW_FOREIGN_KUBELET": "yes",
        "CONTAINER_RUNTIME_ENDPOINT": "unix:///env.sock",
    }
    by_environment = node_settings(environ)
    assert (by_environment.node, by_environment.log_dir) == ("from-env", Path("/env/logs"))
    assert (by_environment.cgroup_parent, by_environment.allow_foreign_kubelet) == ("env/pods", True)
    assert by_environment.runtime_endpoint == "unix:///env.sock"
    given = node_settings(environ, node="given", state_dir="/given", allow_foreign_kubelet=False)
    assert (given.node, given.state_dir, given.allow_foreign_kubelet) == ("given", Path("/given"), False)
    assert given.log_dir == Path("/env/logs")


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"SYNCPOD_NODE": "Node"}, "node name 'Node': must be at most 253 lower-case letters"),
        ({"SYNCPOD_NODE": "n/1"}, "node name 'n/1': must be"),
        ({"SYNCPOD_STATE_DIR": "state"}, "state directory 'state': must be an absolute path"),
        ({"SYNCPOD_CGROUP_PARENT": "a/../b"}, r"cgroup parent 'a/\.\./b': must be names of letters"),
        (
            {"SYNCPOD_ALLOW_FOREIGN_KUBELET": "perhaps"},
            "SYNCPOD_ALLOW_FOREIGN_KUBELET='perhaps': must be true or false",
        ),
    ],
)
def test_a_wrong_value_is_one_sentence(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsInvalid, match=sentence):
        node_settings(environ)


def test_a_workers_record_is_private_replaced_at_once_and_taken_back(tmp_path: Path) -> None:
    assert read_worker_record(tmp_path) is None
    write_worker_record(tmp_path, RECORD)
    write_worker_record(tmp_path, RECORD)
    assert read_worker_record(tmp_path) == RECORD
    assert [path.name for path in tmp_path.iterdir()] == ["worker.json"]
    assert (tmp_path / "worker.json").stat().st_mode & 0o777 == 0o600
    remove_worker_record(tmp_path)
    remove_worker_record(tmp_path)
    assert read_worker_record(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": 7}'])
def test_a_record_that_is_none_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "worker.json").write_text(text)
    assert read_worker_record(tmp_path) is None
