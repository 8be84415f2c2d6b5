from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import worker
from syncpod.housekeeping_settings import housekeeping_settings
from syncpod.settings.command_line import parse_arguments
from syncpod.settings.node import NodeSettings, node_settings
from syncpod.settings.setting import Setting, settings_of
from syncpod.settings.table import BY_NAME, SETTINGS, as_arguments, first_difference
from syncpod.settings.values import SettingsInvalid

ROOT = Path(__file__).resolve().parents[2]
VALUES = {
    "node": "n1",
    "memory_dir": "/m",
    "log_dir": "/l",
    "manifest_dir": "/manifests",
    "kubeconfig": "/node.conf",
    "keep_secrets": "true",
    "kubelet_port": "10350",
    "kubelet_address": "127.0.0.1",
    "anonymous_auth": "true",
    "token_reviews": "false",
    "authorization_mode": "AlwaysAllow",
    "read_only_port": "10255",
    "pods_api": "true",
    "shutdown_grace": "0=20s",
    "server_tls_bootstrap": "true",
    "client_ca_file": "/ca.crt",
    "tls_cert_file": "/tls.crt",
    "tls_private_key_file": "/tls.key",
    "cgroup_parent": "pods",
    "capacity": "pods=7",
    "reserved": "cpu=100m",
    "node_labels": "disk=ssd",
    "node_ip": "127.0.0.1,::1",
    "cluster_dns": "10.96.0.10,fd00::a",
    "cluster_domain": "cluster.local",
    "register_with_taints": "dedicated=edge:NoSchedule",
    "pod_cgroups": "false",
    "single_process_oom_kill": "true",
    "pod_max_pids": "500",
    "allowed_unsafe_sysctls": "net.core.*",
    "max_parallel_image_pulls": "3",
    "registry_auth_file": "/auth.json",
    "image_gc_high": "90",
    "image_gc_low": "70",
    "image_gc_min_age": "3m",
    "image_gc_max_age": "48h",
    "image_pull_credentials_verification_policy": "AlwaysVerify",
    "preloaded_images_verification_allowlist": "example.com/base/*",
    "container_log_max_size": "1Mi",
    "container_log_max_files": "3",
    "container_gc_period": "2m",
    "container_gc_per_container": "2",
    "container_gc_in_all": "100",
    "container_gc_min_age": "1m",
    "gone_pods_period": "2m",
    "gone_pods_min_age": "10m",
    "orphans_period": "2m",
    "eviction_hard": "memory.available<1Gi",
    "eviction_soft": "memory.available<2Gi",
    "eviction_soft_grace_period": "memory.available=1m",
    "eviction_minimum_reclaim": "memory.available=500Mi",
    "eviction_max_pod_grace_period": "30",
    "eviction_pressure_transition_period": "1m",
    "eviction_monitoring_period": "5s",
    "restart_backoff_max": "1m",
    "runtime_endpoint": "unix:///r.sock",
    "journal_age": "7d",
    "journal_size": "8Mi",
    "signed": "true",
    "encrypt": "true",
    "metrics_address": "127.0.0.1:9105",
    "log_format": "json",
}
"""For each setting, a value other than its default."""


def worker_settings(directory: Path, arguments: list[str], environ: dict[str, str] | None = None) -> NodeSettings:
    """Return the settings of a worker that is started with these arguments."""
    _, read = parse_arguments(["--state-dir", str(directory), *arguments])
    return read(environ or {})


def test_each_setting_has_a_value_here() -> None:
    assert list(VALUES) == list(BY_NAME)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_each_setting_becomes_a_value(setting: Setting[Any], tmp_path: Path) -> None:
    """A row without a field would be a flag that does nothing."""
    everything = {each.variable: VALUES[each.name] for each in SETTINGS}
    without = {name: text for name, text in everything.items() if name != setting.variable}
    alone = {setting.variable: VALUES[setting.name]}
    assert read(alone, tmp_path) != read({}, tmp_path) or read(everything, tmp_path) != read(without, tmp_path)


def read(texts: dict[str, str], directory: Path) -> object:
    """Return the values of these texts, or the reason why they have none."""
    settings = node_settings(texts, state_dir=str(directory))
    try:
        return replace(settings, given={}), housekeeping_settings(settings.given)
    except SettingsInvalid as wrong:
        return str(wrong)


def test_what_a_command_changes_is_passed_on_to_the_worker() -> None:
    """`up` makes the worker's arguments from texts, where they are not told to take the value."""
    by_field = settings_of(NodeSettings)
    changed = {
        keyword.arg: path.name
        for path in (ROOT / "syncpod" / "cli").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "replace"
        for keyword in call.keywords
    }
    assert {"signed", "capacity", "manifest_dir"} <= set(changed)
    assert [name for name in changed if name in by_field and not by_field[name].is_passed_on] == []


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_worker_is_given_what_was_said_of_its_node(setting: Setting[Any], tmp_path: Path) -> None:
    """Whether the flag or the variable gave it: `up` starts the worker by arguments, made from the node's settings."""
    said = VALUES[setting.name]
    by_variable = node_settings({setting.variable: said}, state_dir=str(tmp_path))
    assert by_variable.given[setting.variable] == said
    assert worker_settings(tmp_path, as_arguments(by_variable.given, {})) == by_variable


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_an_empty_variable_is_one_that_is_not_set(setting: Setting[Any], tmp_path: Path) -> None:
    """A unit's environment may have ``SYNCPOD_POD_CGROUPS=``, which is no decision."""
    unset = node_settings({}, state_dir=str(tmp_path))
    assert node_settings({setting.variable: ""}, state_dir=str(tmp_path)) == unset


@pytest.mark.parametrize("setting", [each for each in SETTINGS if each.may_be_none], ids=lambda setting: setting.name)
def test_what_is_taken_back_is_not_taken_from_the_environment(setting: Setting[Any], tmp_path: Path) -> None:
    environ = {setting.variable: VALUES[setting.name]}
    flags: dict[str, str | bool | None] = {setting.name: ""}
    taken_back = node_settings(
        environ, state_dir=str(tmp_path), allow_foreign_kubelet=None, adopt_cluster=False, **flags
    )
    assert setting.variable not in taken_back.given
    assert worker_settings(tmp_path, as_arguments(taken_back.given, environ), environ) == taken_back


def test_two_texts_of_one_value_are_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`up --metrics-address :9105` a second time is the same node, and so is a switch or a list in other words."""
    monkeypatch.setenv("HOME", "/home/me")
    one = {"SYNCPOD_METRICS_ADDRESS": ":9105", "SYNCPOD_MANIFEST_DIR": "~/pods/", "SYNCPOD_PODS_API": "1"}
    other = {
        "SYNCPOD_METRICS_ADDRESS": "127.0.0.1:9105",
        "SYNCPOD_MANIFEST_DIR": "/home/me/pods",
        "SYNCPOD_PODS_API": "true",
    }
    labels = {"SYNCPOD_NODE_LABELS": "a=1,b=2"}, {"SYNCPOD_NODE_LABELS": "b=2,a=1"}
    texts = [
        node_settings({**each, **more}, state_dir=str(tmp_path)).given
        for each, more in zip((one, other), labels, strict=True)
    ]
    assert first_difference(*texts) == ""
    assert (
        first_difference(texts[0], {**texts[0], "SYNCPOD_PODS_API": "off"}) == "with --pods-api, not without --pods-api"
    )


@pytest.mark.parametrize(
    "argument",
    [
        "--eviction-hard=memory<1Gi",
        "--container-gc-period=0",
        "--orphans-period=soon",
        "--container-gc-per-container=0",
    ],
)
def test_a_worker_refuses_a_mistyped_setting_by_its_flag_before_it_reaches_anything(
    argument: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert worker.main(["--state-dir", str(tmp_path), "--runtime-endpoint", "unix:///nowhere.sock", argument]) == 2
    told = capsys.readouterr().err
    assert argument.partition("=")[0] in told and "nowhere" not in told
