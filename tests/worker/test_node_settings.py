from __future__ import annotations

import hashlib
import json
import os
import socket
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from syncpod.checked_settings import labels, require_valid
from syncpod.cli.failure import BadInput
from syncpod.cli.machine import checked_node
from syncpod.cli.machine import settings as command
from syncpod.node.host import require_own_addresses
from syncpod.settings import directories
from syncpod.settings.command_line import parse_arguments
from syncpod.settings.directories import (
    is_in_memory,
    make_memory_directory,
    memory_directory,
    require_own_memory_directory,
)
from syncpod.settings.kept import KeptSettings, forget_kept_settings, read_kept_settings, write_kept_settings
from syncpod.settings.node import ImageGcSettings, ImagePullSettings, LogSettings, node_settings
from syncpod.settings.values import SettingsInvalid
from syncpod.settings.worker_record import WorkerRecord, read_worker_record, remove_worker_record, write_worker_record

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
    memory_dir="/run/syncpod-0123456789ab",
)


def test_as_root_the_default_paths_are_those_of_crictl_and_log_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    # This machine may have a node with kept settings there.
    monkeypatch.setattr("syncpod.settings.node.read_kept_settings", lambda _: KeptSettings())
    settings = node_settings({})
    assert settings.node == socket.gethostname().lower()
    assert settings.state_dir == Path("/var/lib/syncpod")
    assert settings.log_dir == Path("/var/log/pods")
    assert settings.cgroup_parent == "syncpod"
    assert settings.runtime_endpoint is None
    assert not settings.allow_foreign_kubelet


@pytest.mark.parametrize("uid", [0, 1000])
def test_logs_are_kept_below_an_explicit_state_directory(uid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert node_settings({}, state_dir="/x").log_dir == Path("/x/pods")
    assert node_settings({"SYNCPOD_STATE_DIR": "/y"}).log_dir == Path("/y/pods")
    assert node_settings({"SYNCPOD_LOG_DIR": "/logs"}, state_dir="/x").log_dir == Path("/logs")


@pytest.mark.parametrize(
    ("environ", "home"),
    [({"XDG_STATE_HOME": "/x/state"}, "/x/state"), ({"HOME": "/home/me"}, "/home/me/.local/state")],
)
def test_without_root_all_paths_are_below_the_users_state_directory(
    environ: dict[str, str], home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    settings = node_settings(environ)
    assert settings.state_dir == Path(home) / "syncpod"
    assert settings.log_dir == Path(home) / "syncpod" / "pods"


def test_flags_override_the_environment_which_overrides_the_defaults() -> None:
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


def test_node_capacity_is_set_by_flags_or_the_environment() -> None:
    nothing = node_settings({})
    assert (nothing.capacity, nothing.pod_cgroups, nothing.allowed_unsafe_sysctls) == ("", True, ())
    environ = {
        "SYNCPOD_CAPACITY": "cpu=8",
        "SYNCPOD_NODE_LABELS": "disk=ssd",
        "SYNCPOD_POD_CGROUPS": "false",
        "SYNCPOD_ALLOWED_UNSAFE_SYSCTLS": "kernel.msgmax, net.core.*",
    }
    settings = node_settings(environ)
    assert (settings.capacity, settings.node_labels, settings.pod_cgroups) == ("cpu=8", "disk=ssd", False)
    assert labels(settings)["disk"] == "ssd"
    assert (
        node_settings(environ, node_labels="").node_labels == "" != node_settings(environ, node_labels=None).node_labels
    )
    assert settings.allowed_unsafe_sysctls == ("kernel.msgmax", "net.core.*")
    assert (nothing.pod_max_pids, node_settings({"SYNCPOD_POD_MAX_PIDS": "500"}).pod_max_pids) == (-1, 500)
    assert node_settings({"SYNCPOD_POD_MAX_PIDS": "500"}, pod_max_pids="-1").pod_max_pids == -1
    given = node_settings(environ, capacity="pods=1", pod_cgroups=True, allowed_unsafe_sysctls="net.*")
    assert (given.capacity, given.pod_cgroups, given.allowed_unsafe_sysctls) == ("pods=1", True, ("net.*",))


@pytest.mark.parametrize(
    ("said", "address"),
    [
        (":9105", "127.0.0.1:9105"),
        ("localhost:9105", "127.0.0.1:9105"),
        ("[::1]:0", "[::1]:0"),
        ("192.0.2.7:9105", "192.0.2.7:9105"),
        ("", ""),
        (" ", ""),
    ],
)
def test_metrics_are_served_on_the_loopback_unless_told_otherwise(said: str, address: str) -> None:
    assert node_settings({"SYNCPOD_METRICS_ADDRESS": said}).metrics_address == address


def test_the_journal_keeps_ninety_days_unless_it_is_told_otherwise() -> None:
    nothing = node_settings({}).journal
    assert (nothing.age, nothing.max_bytes) == (timedelta(days=90), 256 * 2**20)
    environ = {"SYNCPOD_JOURNAL_AGE": "36h", "SYNCPOD_JOURNAL_SIZE": "2Mi"}
    found = node_settings(environ)
    assert (found.journal.age, found.journal.max_bytes) == (timedelta(hours=36), 2 * 2**20)
    assert {name: found.given[name] for name in environ} == environ, "they hold for the next start"
    flags = node_settings(environ, journal_age="7d", journal_size="1Gi").journal
    assert (flags.age, flags.max_bytes) == (timedelta(days=7), 2**30)
    assert node_settings({}, journal_age="0").journal.age == timedelta(0)


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"SYNCPOD_JOURNAL_AGE": "90 days"}, "SYNCPOD_JOURNAL_AGE='90 days': must be a duration such as 90d, 36h or 0"),
        ({"SYNCPOD_JOURNAL_SIZE": "1k"}, "SYNCPOD_JOURNAL_SIZE='1k': must be at least 1Mi"),
        ({"SYNCPOD_NODE": "Node"}, "node name 'Node': must be at most 253 lower-case letters"),
        ({"SYNCPOD_NODE": "n/1"}, "node name 'n/1': must be"),
        (
            {"SYNCPOD_METRICS_ADDRESS": "edge:9105"},
            "SYNCPOD_METRICS_ADDRESS='edge:9105': must be an address and a port",
        ),
        ({"SYNCPOD_METRICS_ADDRESS": "9105"}, "must be an address and a port"),
        ({"SYNCPOD_METRICS_ADDRESS": "127.0.0.1"}, "must be an address and a port, such as 127.0.0.1:9105"),
        ({"SYNCPOD_METRICS_ADDRESS": ":70000"}, "must be an address and a port"),
        ({"SYNCPOD_STATE_DIR": "state"}, "state directory 'state': must be an absolute path"),
        ({"SYNCPOD_CGROUP_PARENT": "a/../b"}, r"cgroup parent 'a/\.\./b': must be names of letters"),
        (
            {"SYNCPOD_ALLOW_FOREIGN_KUBELET": "perhaps"},
            "SYNCPOD_ALLOW_FOREIGN_KUBELET='perhaps': must be true or false",
        ),
    ],
)
def test_a_wrong_setting_is_refused_in_one_sentence(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsInvalid, match=sentence):
        node_settings(environ)


def test_the_worker_record_is_private_replaced_atomically_and_removed_at_the_end(tmp_path: Path) -> None:
    assert read_worker_record(tmp_path) is None
    write_worker_record(tmp_path, RECORD)
    write_worker_record(tmp_path, RECORD)
    assert read_worker_record(tmp_path) == RECORD
    assert [path.name for path in tmp_path.iterdir()] == ["worker.json"]
    assert (tmp_path / "worker.json").stat().st_mode & 0o777 == 0o600
    remove_worker_record(tmp_path)
    remove_worker_record(tmp_path)
    assert read_worker_record(tmp_path) is None


@pytest.mark.parametrize("said", [b"", b"{}", b"[]", b'{"pid": 7}', b'{"p\xe9d": 7}'])
def test_a_corrupt_worker_record_counts_as_absent(tmp_path: Path, said: bytes) -> None:
    (tmp_path / "worker.json").write_bytes(said)
    assert read_worker_record(tmp_path) is None


def test_a_worker_record_without_a_memory_directory_is_read(tmp_path: Path) -> None:
    said = asdict(RECORD)
    del said["memory_dir"]
    (tmp_path / "worker.json").write_text(json.dumps(said))
    assert read_worker_record(tmp_path) == replace(RECORD, memory_dir="")


def in_memory(monkeypatch: pytest.MonkeyPatch, *places: Path | str) -> None:
    """Make these directories, and no others, memory file systems."""
    monkeypatch.setattr(directories, "is_in_memory", lambda path: str(path) in map(str, places))


def test_secrets_are_kept_in_run_for_root_and_in_xdg_runtime_dir_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory(monkeypatch, "/run", tmp_path)
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    of_root = memory_directory(Path("/x"), environ)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    of_others = memory_directory(Path("/x"), environ)
    assert (of_root.parent, of_others.parent) == (Path("/run"), tmp_path)
    assert of_root.name == of_others.name == "syncpod-" + hashlib.sha256(b"/x").hexdigest()[:12]


def test_a_memory_directory_shared_by_users_has_the_uid_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory(monkeypatch, "/dev/shm")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for runtime_directory in ("", str(tmp_path), "/nowhere"):
        place = memory_directory(Path("/x"), {"XDG_RUNTIME_DIR": runtime_directory})
        assert place == Path("/dev/shm/syncpod-1000-" + hashlib.sha256(b"/x").hexdigest()[:12])


def test_each_state_directory_has_its_own_memory_directory_however_it_is_spelled(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "state")
    assert memory_directory(tmp_path / "state", {}) == memory_directory(tmp_path / "link", {})
    assert memory_directory(tmp_path / "state", {}) != memory_directory(tmp_path, {})


def test_without_a_memory_file_system_secrets_are_kept_below_the_state_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_memory(monkeypatch)
    assert memory_directory(Path("/x"), {}) == Path("/x/memory")


def test_an_explicit_memory_directory_is_used(tmp_path: Path) -> None:
    assert node_settings({"SYNCPOD_MEMORY_DIR": "/env"}).memory_dir == Path("/env")
    assert node_settings({"SYNCPOD_MEMORY_DIR": "/env"}, memory_dir="/given").memory_dir == Path("/given")
    with pytest.raises(SettingsInvalid, match="memory directory 'here': must be an absolute path"):
        node_settings({"SYNCPOD_MEMORY_DIR": "here"})


def test_a_directory_in_memory_is_recognised_by_its_mount() -> None:
    assert is_in_memory(Path("/dev/shm/not/yet/there"))
    assert not is_in_memory(Path("/proc/self"))


def test_an_existing_memory_directory_is_made_private(tmp_path: Path) -> None:
    place = tmp_path / "parent" / "memory"
    require_own_memory_directory(place)
    make_memory_directory(place)
    place.chmod(0o755)
    make_memory_directory(place)
    assert place.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["link", "dangling", "file", "another's"])
def test_a_memory_path_that_is_not_the_users_own_directory_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "memory"
    if kind in ("link", "dangling"):
        place.symlink_to(tmp_path if kind == "link" else tmp_path / "nowhere")
    elif kind == "file":
        place.touch()
    else:
        place.mkdir()
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    for look in (make_memory_directory, require_own_memory_directory):
        with pytest.raises(SettingsInvalid, match="exists, but is not a directory that this user owns"):
            look(place)


def test_a_memory_directory_that_cannot_be_created_is_reported_in_one_sentence() -> None:
    with pytest.raises(SettingsInvalid, match=r"cannot be created: File exists \(SYNCPOD_MEMORY_DIR\)"):
        make_memory_directory(Path("/dev/null/memory"))


def test_image_gc_settings_default_to_the_kubelets() -> None:
    assert node_settings({}).image_gc == ImageGcSettings(85, 80, 120.0, 0.0)
    told = {
        "SYNCPOD_IMAGE_GC_HIGH": "70",
        "SYNCPOD_IMAGE_GC_LOW": "60",
        "SYNCPOD_IMAGE_GC_MIN_AGE": "1m30s",
        "SYNCPOD_IMAGE_GC_MAX_AGE": "1.5h",
    }
    assert node_settings(told).image_gc == ImageGcSettings(70, 60, 90.0, 5400.0)
    assert node_settings({**told, "SYNCPOD_IMAGE_GC_MAX_AGE": "0"}).image_gc.maximum_age_seconds == 0


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"HIGH": "101"}, "SYNCPOD_IMAGE_GC_HIGH='101': must be a whole number from 0 to 100"),
        ({"LOW": "-1"}, "SYNCPOD_IMAGE_GC_LOW='-1': must be a whole number from 0 to 100"),
        ({"HIGH": "80"}, "SYNCPOD_IMAGE_GC_LOW=80: must be less than SYNCPOD_IMAGE_GC_HIGH, which is 80"),
        ({"MIN_AGE": "2"}, "SYNCPOD_IMAGE_GC_MIN_AGE='2': must be a duration such as 90s, 2m or 1h30m"),
        (
            {"MAX_AGE": "1m"},
            "SYNCPOD_IMAGE_GC_MAX_AGE: must be 0, or more than SYNCPOD_IMAGE_GC_MIN_AGE, which is 120 s",
        ),
    ],
)
def test_a_wrong_image_gc_setting_is_refused_in_one_sentence(told: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        node_settings({f"SYNCPOD_IMAGE_GC_{name}": value for name, value in told.items()})
    assert str(refused.value) == said


def test_images_are_pulled_serially_by_default() -> None:
    assert node_settings({}).image_pulls == ImagePullSettings(at_once=1)
    told = {
        "SYNCPOD_MAX_PARALLEL_IMAGE_PULLS": "4",
        "SYNCPOD_REGISTRY_AUTH_FILE": "/root/.docker/config.json",
        "SYNCPOD_IMAGE_PULL_CREDENTIALS_VERIFICATION_POLICY": "NeverVerifyAllowlistedImages",
        "SYNCPOD_PRELOADED_IMAGES_VERIFICATION_ALLOWLIST": "busybox, quay.io/team/*",
    }
    auth = Path("/root/.docker/config.json")
    allowed = ("busybox", "quay.io/team/*")
    assert node_settings(told).image_pulls == ImagePullSettings(4, auth, "NeverVerifyAllowlistedImages", allowed)
    flags = node_settings(told, max_parallel_image_pulls="2", registry_auth_file="/auth.json").image_pulls
    assert (flags.at_once, flags.registry_auth_file) == (2, Path("/auth.json"))


@pytest.mark.parametrize("number", ["0", "-2", "0500", "ten", "1.5", "10000000", "٣"])
def test_a_limit_of_processes_is_a_whole_number(number: str) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        node_settings({"SYNCPOD_POD_MAX_PIDS": number})
    said = f"SYNCPOD_POD_MAX_PIDS={number!r}: must be a whole number from 1, or -1 for no limit (--pod-max-pids)"
    assert str(refused.value) == said


@pytest.mark.parametrize("flag", ["pod_max_pids", "metrics_address", "journal_age", "journal_size"])
def test_a_wrong_setting_is_named_as_it_was_given(flag: str) -> None:
    variable, typed = f"SYNCPOD_{flag.upper()}", f"--{flag.replace('_', '-')}"
    with pytest.raises(SettingsInvalid, match=f"^{variable}='nonsense': must be "):
        node_settings({variable: "nonsense"})
    environs: tuple[dict[str, str], ...] = ({}, {variable: "other"})
    for environ in environs:
        with pytest.raises(SettingsInvalid, match=f"^{typed}='nonsense': must be ") as refused:
            node_settings(environ, **cast(Any, {flag: "nonsense"}))
        assert str(refused.value).count("--") == 1


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        (
            {"SYNCPOD_MAX_PARALLEL_IMAGE_PULLS": number},
            f"SYNCPOD_MAX_PARALLEL_IMAGE_PULLS={number!r}: must be a whole number from 1 (--max-parallel-image-pulls)",
        )
        for number in ("0", "-1", "two", "1.5")
    ]
    + [({"SYNCPOD_REGISTRY_AUTH_FILE": "auth.json"}, "registry auth file 'auth.json': must be an absolute path")],
)
def test_wrong_pull_settings_are_refused(environ: dict[str, str], why: str) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        node_settings(environ)
    assert str(caught.value) == why


def test_the_longest_back_off_defaults_to_the_kubelets() -> None:
    assert node_settings({}).restart_backoff_max == 300
    assert node_settings({"SYNCPOD_RESTART_BACKOFF_MAX": "1m30s"}).restart_backoff_max == 90
    for text, why in (("500ms", "between 1s and 5m"), ("5m1s", "between 1s and 5m"), ("x", "a duration such as")):
        with pytest.raises(SettingsInvalid, match=f"SYNCPOD_RESTART_BACKOFF_MAX='{text}': must be {why}"):
            node_settings({"SYNCPOD_RESTART_BACKOFF_MAX": text})


def test_log_rotation_settings_default_to_the_kubelets() -> None:
    """Row 113: containerLogMaxSize and containerLogMaxFiles, from the environment."""
    assert node_settings({}).logs == LogSettings(max_bytes=10 * 1024 * 1024, max_files=5)
    for size, read in {"4096": 4096, "100k": 100_000, "50Mi": 50 * 1024 * 1024, "1G": 10**9}.items():
        told = {"SYNCPOD_CONTAINER_LOG_MAX_SIZE": size, "SYNCPOD_CONTAINER_LOG_MAX_FILES": "2"}
        assert node_settings(told).logs == LogSettings(read, 2)


@pytest.mark.parametrize("size", ["0", "0Mi", "-1", "1.5Mi", "10MB", "10 Mi", "ten", "٣"])
def test_an_invalid_log_size_is_refused(size: str) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        node_settings({"SYNCPOD_CONTAINER_LOG_MAX_SIZE": size})
    assert str(caught.value) == f"SYNCPOD_CONTAINER_LOG_MAX_SIZE={size!r}: must be a size such as 10Mi"


@pytest.mark.parametrize("number", ["0", "1", "-2", "2.0", "two", "٣"])
def test_fewer_than_two_log_files_are_refused(number: str) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        node_settings({"SYNCPOD_CONTAINER_LOG_MAX_FILES": number})
    said = f"SYNCPOD_CONTAINER_LOG_MAX_FILES={number!r}: must be a whole number, at least 2"
    assert str(caught.value) == said


def test_each_flag_overrides_the_environment_and_an_unknown_flag_ends_the_worker() -> None:
    environ = {"SYNCPOD_NODE": "n1", "SYNCPOD_STATE_DIR": "/env", "SYNCPOD_POD_CGROUPS": "true"}
    level, read = parse_arguments(["--state-dir", "/flag", "--no-pod-cgroups", "--log-level", "debug"])
    settings = read(environ)
    assert (level, settings.node, settings.state_dir, settings.pod_cgroups) == ("DEBUG", "n1", Path("/flag"), False)
    _, read = parse_arguments([])
    assert read(environ) == node_settings(environ)
    with pytest.raises(SystemExit) as ended:
        parse_arguments(["--no-such-flag"])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--capacity", "cpu"], r"--capacity or SYNCPOD_CAPACITY"),
        (["--reserved", "pods=1"], r"--reserved or SYNCPOD_RESERVED"),
        (["--node-labels", "disk"], r"--node-labels or SYNCPOD_NODE_LABELS"),
        (["--allowed-unsafe-sysctls", "*"], r"--allowed-unsafe-sysctls or SYNCPOD_ALLOWED_UNSAFE_SYSCTLS"),
    ],
)
def test_the_error_of_a_wrong_setting_names_the_setting(flags: list[str], told: str) -> None:
    settings = parse_arguments(flags)[1]({})
    with pytest.raises(SettingsInvalid, match=told):
        require_valid(settings)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SYNCPOD_IMAGE_PULL_CREDENTIALS_VERIFICATION_POLICY", "Sometimes"),
        ("SYNCPOD_CONTAINER_GC_PERIOD", "0"),
        ("SYNCPOD_EVICTION_HARD", "memory<1Gi"),
        ("SYNCPOD_CAPACITY", "cpu"),
        ("SYNCPOD_LOG_FORMAT", "xml"),
        ("OTEL_METRICS_EXPORTER", "prometheus"),
    ],
)
def test_a_command_refuses_whatever_the_worker_would_refuse(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So `up` starts no server and no runtime for a worker that cannot serve."""
    monkeypatch.setenv("SYNCPOD_STATE_DIR", str(tmp_path))
    checked_node.require_valid(command.settings())
    monkeypatch.setenv(name, text)
    with pytest.raises(BadInput, match=name):
        checked_node.require_valid(command.settings())


# --- what is kept of the last start -----------------------------------------------------------------------------------


def test_settings_of_the_last_start_are_kept_unless_overridden(tmp_path: Path) -> None:
    auth, environ = str(tmp_path / "auth.json"), {"SYNCPOD_STATE_DIR": str(tmp_path)}
    flags = [
        "--node",
        "n1",
        "--manifests",
        "/manifests",
        "--capacity",
        "cpu=2",
        "--no-pod-cgroups",
        "--log-dir",
        "/logs",
    ]
    flags += [
        "--log-dir",
        "/logs",
        "--cgroup-parent",
        "pods",
        "--registry-auth-file",
        auth,
        "--runtime-endpoint",
        "unix:///run/a.sock",
    ]
    flags += ["--memory-dir", "/memory", "--allowed-unsafe-sysctls", "net.*", "--max-parallel-image-pulls", "3"]
    flags += ["--pod-max-pids", "500", "--log-format", "json"]
    given = parse_arguments(flags)[1](environ)
    write_kept_settings(tmp_path, KeptSettings(given.given, "containerd", "c/n", "127.0.0.1:1", "default"))
    assert (tmp_path / "node-settings.json").stat().st_mode & 0o777 == 0o600
    assert node_settings(environ) == given
    assert node_settings({**environ, "SYNCPOD_CAPACITY": "", "SYNCPOD_NODE": "n2"}) == replace(
        given, node="n2", given={**given.given, "SYNCPOD_NODE": "n2"}
    )
    _, without = parse_arguments(["--no-manifests", "--capacity", "cpu=3"])
    assert (without(environ).manifest_dir, without(environ).capacity) == (None, "cpu=3")
    assert "SYNCPOD_MANIFEST_DIR" not in without(environ).given
    forget_kept_settings(tmp_path)
    assert node_settings(environ).given == {}


def test_a_default_is_not_kept(tmp_path: Path) -> None:
    """The default directory for Secrets is in memory, and may be another one after a reboot."""
    default = node_settings({}, state_dir=str(tmp_path))
    named = node_settings({}, state_dir=str(tmp_path), memory_dir=str(default.memory_dir))
    assert named == default and default.given == {}


def test_kept_settings_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    for rubbish in ("", "[]", '{"variables": {}}'):
        (tmp_path / "node-settings.json").write_text(rubbish)
        with pytest.raises(SettingsInvalid, match=r"node-settings\.json cannot be read .*: restore it, or remove it"):
            read_kept_settings(tmp_path)


@pytest.mark.parametrize("text", ["10.0.0.300", "node", "10.0.0.1,10.0.0.2", "10.0.0.1,fd00::1,fd00::2"])
def test_the_nodes_addresses_are_one_of_each_family(text: str) -> None:
    with pytest.raises(SettingsInvalid) as wrong:
        node_settings({"SYNCPOD_NODE_IP": text})
    assert str(wrong.value).startswith(
        f"SYNCPOD_NODE_IP={text!r}: must be an IP address, or one of IPv4 and one of IPv6"
    )
    assert node_settings({"SYNCPOD_NODE_IP": "10.0.0.1, fd00::1"}).node_ip == ("10.0.0.1", "fd00::1")


def test_the_nodes_addresses_are_the_machines() -> None:
    require_own_addresses(("127.0.0.1",))
    with pytest.raises(OSError, match="Cannot assign requested address") as wrong:
        require_own_addresses(("127.0.0.1", "192.0.2.1"))
    assert wrong.value.filename == "192.0.2.1"
