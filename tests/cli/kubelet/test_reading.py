"""A kubelet's flags and configuration file: each field is in the table, and each error has a path."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncpod.agent.kubelet_port.configuration import kubelet_configuration
from syncpod.cli.kubelet.fields import BY_FLAG, BY_PATH, FIELDS
from syncpod.cli.kubelet.node_start import KubeletMachine, NodeStart, node_start
from syncpod.cli.kubelet.reading import KubeletInputInvalid, read
from syncpod.housekeeping_settings import housekeeping_settings
from syncpod.settings import table
from syncpod.settings.directories import STATE_DIR
from syncpod.settings.node import node_settings
from syncpod.settings.table import BY_VARIABLE
from tests.agent.node_endpoint import node_of

PLAIN = KubeletMachine(has_swap=False, has_cgroup_v1=False)
HEADER = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def listed(name: str) -> set[str]:
    lines = Path(__file__).with_name(name).read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}


def started(tmp_path: Path, *flags: str, machine: KubeletMachine = PLAIN, **fields: Any) -> NodeStart:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(HEADER | fields, sort_keys=False))
    return node_start(read([f"--config={config}", *flags]), machine)


def refusal(tmp_path: Path, *flags: str, machine: KubeletMachine = PLAIN, **fields: Any) -> list[str]:
    with pytest.raises(KubeletInputInvalid) as caught:
        started(tmp_path, *flags, machine=machine, **fields)
    return str(caught.value).replace(f"{tmp_path}/config.yaml: ", "").splitlines()


def test_every_field_of_a_kubelets_configuration_has_a_row_and_no_row_is_of_another() -> None:
    assert set(BY_PATH) == listed("fields-1.37.2.txt")


def test_every_flag_of_a_kubelet_has_a_row() -> None:
    assert listed("flags-1.36.2.txt") - set(BY_FLAG) == set()


@pytest.mark.parametrize("row", FIELDS, ids=lambda row: row.path or row.flag)
def test_each_row_has_exactly_one_effect(row: Any) -> None:
    assert [bool(row.variable), bool(row.refused), bool(row.warned), row.derived].count(True) == 1
    assert not row.variable or row.variable in BY_VARIABLE or row.variable.startswith("SYNCPOD_")


def test_a_kubeadm_configuration_starts_a_node(tmp_path: Path) -> None:
    start = started(
        tmp_path,
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        "--hostname-override=n1",
        "--node-labels=a=b",
        staticPodPath="/etc/kubernetes/manifests",
        containerRuntimeEndpoint="unix:///run/containerd/containerd.sock",
        authentication={"anonymous": {"enabled": False}, "webhook": {"enabled": True, "cacheTTL": "0s"}},
        authorization={"mode": "Webhook", "webhook": {"cacheAuthorizedTTL": "0s", "cacheUnauthorizedTTL": "0s"}},
        cgroupDriver="cgroupfs",
        evictionHard={"memory.available": "200Mi"},
        healthzPort=10248,
        maxPods=60,
        serializeImagePulls=False,
        syncFrequency="0s",
        imageMinimumGCAge="0s",
        evictionPressureTransitionPeriod="0s",
        memorySwap={},
        logging={"flushFrequency": 0, "options": {"json": {"infoBufferSize": "0"}}, "verbosity": 0},
        resolvConf="/run/systemd/resolve/resolv.conf",
    )
    assert table.IMAGE_GC_MIN_AGE.variable not in start.variables
    assert start.warnings == ()
    assert start.variables == {
        **start.variables,
        table.NODE.variable: "n1",
        table.NODE_LABELS.variable: "a=b",
        table.KUBECONFIG.variable: "/etc/kubernetes/kubelet.conf",
        table.MANIFEST_DIR.variable: "/etc/kubernetes/manifests",
        table.RUNTIME_ENDPOINT.variable: "unix:///run/containerd/containerd.sock",
        STATE_DIR: "/var/lib/kubelet/syncpod",
        table.CAPACITY.variable: "pods=60",
        table.CGROUP_PARENT.variable: "kubepods",
        table.METRICS_ADDRESS.variable: "127.0.0.1:10248",
        table.MAX_PARALLEL_IMAGE_PULLS.variable: "5",
        "SYNCPOD_EVICTION_HARD": "memory.available<200Mi,nodefs.available<0%,nodefs.inodesFree<0%,"
        "imagefs.available<0%,imagefs.inodesFree<0%",
    }


def test_what_is_reserved_for_the_system_and_for_kubernetes_is_added_up(tmp_path: Path) -> None:
    start = started(
        tmp_path,
        "--kube-reserved=cpu=250m,memory=1Gi",
        systemReserved={"cpu": "0.5", "memory": "512Mi", "ephemeral-storage": "1Gi", "pid": "100"},
    )
    assert (
        start.variables[table.RESERVED.variable] == f"cpu=750m,memory={1536 << 20},ephemeral-storage={1 << 30},pid=100"
    )
    assert started(tmp_path).variables[table.RESERVED.variable] == ""
    assert refusal(tmp_path, kubeReserved={"pods": "1"}, systemReserved={"cpu": "much"}) == [
        "systemReserved: reserved 'cpu=much': 'much' must be a quantity such as 100m, 0.5, 64Mi or 129e6",
        "kubeReserved: reserved 'pods=1': must be one of cpu, memory, ephemeral-storage, pid, each once, and an "
        "amount, such as cpu=500m,memory=1Gi",
    ]


def test_a_setting_of_an_earlier_start_does_not_last(tmp_path: Path) -> None:
    assert started(tmp_path).variables[table.POD_MAX_PIDS.variable] == "-1"
    assert started(tmp_path, podPidsLimit=77).variables[table.POD_MAX_PIDS.variable] == "77"


def test_unknown_fields_and_wrong_types_are_told_together_with_their_paths(tmp_path: Path) -> None:
    assert refusal(tmp_path, maxPod=3, maxPods="many", authentication={"x509": {"clientCa": "/ca"}}, logging=3) == [
        "maxPod: a KubeletConfiguration has no such field",
        "maxPods: must be a whole number",
        "authentication.x509.clientCa: a KubeletConfiguration has no such field",
        "logging: must be an object",
    ]


def test_a_nul_which_no_process_can_be_given_is_told_with_its_path(tmp_path: Path) -> None:
    assert refusal(tmp_path, address="x\0y", clusterDNS=["10.0.0.1", "\0"], kubeReserved={"cpu\0": "1"}) == [
        "address: must have no NUL character",
        "clusterDNS: must have no NUL character",
        "kubeReserved: must have no NUL character",
    ]


def test_unknown_flags_and_wrong_values_are_told_together(tmp_path: Path) -> None:
    assert refusal(tmp_path, "--max-pod=3", "--max-pods=many", "pods", "--sync-frequency=often") == [
        "--max-pod: a kubelet has no such flag",
        "--max-pods: must be a whole number, not 'many'",
        "pods: a kubelet takes no arguments but flags",
        "--sync-frequency: must be a duration, such as 5m or 1h30m, not 'often'",
    ]


def test_a_field_that_would_give_pods_something_else_is_refused_by_the_name_that_was_typed(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "cpuManagerPolicy": "static",
        "podCIDR": "10.0.0.0/24",
        "defaultPodSysctls": {"net.ipv4.ip_forward": "1"},
    }
    assert refusal(tmp_path, "--seccomp-default", **given) == [
        "podCIDR: 10.0.0.0/24: a cluster assigns it to the Node",
        "defaultPodSysctls: net.ipv4.ip_forward=1: a pod names its sysctls itself; a kubelet has the gate for it off",
        "cpuManagerPolicy: static: a node of ours pins no processor and no memory",
        "--seccomp-default: true: a pod names its seccomp profile itself",
    ]


def test_a_field_that_only_tunes_is_warned_about(tmp_path: Path) -> None:
    start = started(
        tmp_path,
        syncFrequency="1m",
        oomScoreAdj=0,
        featureGates={"InPlace": True, "PodsAPI": True},
        memoryThrottlingFactor=0.9,
    )
    assert start.warnings == (
        "syncFrequency: 1m: the node receives changes as they happen",
        "memoryThrottlingFactor: 0.9: no container has memory.high, as where no factor is given",
        "oomScoreAdj: 0: the worker's is -999",
        "featureGates.InPlace: a node of ours has no such switch",
    )


@pytest.mark.parametrize(
    ("gates", "flag", "value"),
    [
        ({"PodsAPI": True}, "", "true"),
        ({"PodsAPI": False}, "", "false"),
        ({}, "", "false"),
        ({}, "PodsAPI=true", "true"),
    ],
)
def test_the_gate_of_the_pods_api_is_a_setting(tmp_path: Path, gates: dict[str, bool], flag: str, value: str) -> None:
    flags = (f"--feature-gates={flag}",) if flag else ()
    assert started(tmp_path, *flags, featureGates=gates).variables["SYNCPOD_PODS_API"] == value


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({}, ""),
        ({"shutdownGracePeriod": "0s"}, ""),
        ({"shutdownGracePeriod": "30s"}, "0=30s,2000000000=0s"),
        ({"shutdownGracePeriod": "30s", "shutdownGracePeriodCriticalPods": "10s"}, "0=20s,2000000000=10s"),
        (
            {
                "shutdownGracePeriodByPodPriority": [
                    {"priority": 10, "shutdownGracePeriodSeconds": 2},
                    {"priority": -1, "shutdownGracePeriodSeconds": 1},
                ]
            },
            "-1=1s,10=2s",
        ),
    ],
)
def test_how_long_a_shutdown_waits_is_one_setting(tmp_path: Path, fields: dict[str, Any], value: str) -> None:
    assert started(tmp_path, **fields).variables[table.SHUTDOWN_GRACE.variable] == value


PERIODS = "shutdownGracePeriodByPodPriority"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"shutdownGracePeriod": "500ms"}, "shutdownGracePeriod: must be 0, or at least 1s"),
        (
            {"shutdownGracePeriod": "1s", "shutdownGracePeriodCriticalPods": "2s"},
            "shutdownGracePeriodCriticalPods: must not be more than shutdownGracePeriod",
        ),
        (
            {"shutdownGracePeriod": "1s", PERIODS: [{"priority": 1, "shutdownGracePeriodSeconds": 1}]},
            f"{PERIODS}: must be absent while shutdownGracePeriod is given",
        ),
        ({PERIODS: [{"prio": 1}]}, f"{PERIODS}[0]: must have priority and shutdownGracePeriodSeconds"),
        (
            {PERIODS: [{"priority": "1"}]},
            f"{PERIODS}[0]: priority and shutdownGracePeriodSeconds must be whole numbers",
        ),
        (
            {PERIODS: [{"priority": 1, "shutdownGracePeriodSeconds": -1}]},
            f"{PERIODS}: '1=-1s': must be a priority, each once, and whole seconds up to a day, such as 0=20s",
        ),
    ],
)
def test_a_wait_that_a_kubelet_would_refuse_is_named(tmp_path: Path, fields: dict[str, Any], problem: str) -> None:
    assert refusal(tmp_path, **fields) == [problem]


def test_the_rate_of_events_is_the_nodes_own_also_where_a_kubelet_would_have_none(tmp_path: Path) -> None:
    """kubernetes/kubernetes#117119: for a kubelet 1.37 eventRecordQPS 0 means no limit."""
    assert started(tmp_path, eventRecordQPS=0).warnings == ("eventRecordQPS: 0: 50 events a second",)


def test_what_lets_strangers_in_is_warned_about_by_the_name_that_was_typed(tmp_path: Path) -> None:
    start = started(
        tmp_path,
        "--read-only-port=10255",
        authentication={"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        authorization={"mode": "AlwaysAllow"},
        address="10.0.0.1",
    )
    assert [each.split(": ")[:2] for each in start.warnings] == [
        ["authentication.anonymous.enabled", "true"],
        ["authorization.mode", "AlwaysAllow"],
        ["--read-only-port", "10255"],
    ]
    wanted = {
        table.ANONYMOUS_AUTH.variable: "true",
        table.TOKEN_REVIEWS.variable: "false",
        table.AUTHORIZATION_MODE.variable: "AlwaysAllow",
        table.READ_ONLY_PORT.variable: "10255",
        table.KUBELET_ADDRESS.variable: "10.0.0.1",
    }
    assert start.variables == {**start.variables, **wanted}
    closed = started(tmp_path, readOnlyPort=0, authentication={"anonymous": {"enabled": False}})
    assert closed.warnings == ()
    assert closed.variables[table.ANONYMOUS_AUTH.variable] == "false"


def test_a_flag_goes_before_a_file_and_a_drop_in_before_the_file(tmp_path: Path) -> None:
    drop_ins = tmp_path / "conf.d"
    drop_ins.mkdir()
    (drop_ins / "20.conf").write_text(
        yaml.safe_dump(HEADER | {"maxPods": 30, "evictionHard": {"nodefs.available": "1%"}})
    )
    (drop_ins / "10.conf").write_text(yaml.safe_dump(HEADER | {"maxPods": 20}))
    (drop_ins / "notes.txt").write_text("no configuration")
    fields: dict[str, Any] = {
        "maxPods": 10,
        "evictionHard": {"memory.available": "1Mi"},
        "mergeDefaultEvictionSettings": True,
    }
    start = started(tmp_path, f"--config-dir={drop_ins}", **fields)
    assert start.variables[table.CAPACITY.variable] == "pods=30"
    assert start.variables["SYNCPOD_EVICTION_HARD"] == "memory.available<1Mi,nodefs.available<1%"
    assert (
        started(tmp_path, f"--config-dir={drop_ins}", "--max-pods", "40").variables[table.CAPACITY.variable]
        == "pods=40"
    )


def test_a_machine_on_which_a_kubelet_would_not_start_is_refused(tmp_path: Path) -> None:
    old = KubeletMachine(has_swap=True, has_cgroup_v1=True)
    assert refusal(tmp_path, machine=old) == [
        "failSwapOn: this machine has swap: turn it off, or set failSwapOn to false"
    ]
    assert refusal(tmp_path, "--fail-swap-on=false", machine=old, failCgroupV1=True) == [
        "failCgroupV1: this machine has cgroup v1"
    ]


@pytest.mark.parametrize(("given", "variable"), [(None, "false"), (False, "false"), (True, "true")], ids=str)
def test_on_cgroup_v2_a_container_is_killed_whole_or_not_as_asked(
    tmp_path: Path, given: bool | None, variable: str
) -> None:
    fields: dict[str, Any] = {} if given is None else {"singleProcessOOMKill": given}
    assert started(tmp_path, **fields).variables[table.SINGLE_PROCESS_OOM_KILL.variable] == variable


def test_on_cgroup_v1_a_container_cannot_be_killed_whole(tmp_path: Path) -> None:
    old = KubeletMachine(has_swap=False, has_cgroup_v1=True)
    assert refusal(tmp_path, machine=old, singleProcessOOMKill=False) == [
        "singleProcessOOMKill: must not be false on cgroup v1, whose kernel always kills a single process"
    ]
    assert started(tmp_path, machine=old, singleProcessOOMKill=True).warnings == ()
    assert started(tmp_path, machine=old).warnings == ()


def test_configz_tells_that_cgroup_v1_kills_single_processes(tmp_path: Path) -> None:
    start = started(tmp_path, f"--root-dir={tmp_path}/root", podLogsDir=str(tmp_path / "logs"))
    (tmp_path / "root").mkdir()
    settings = node_settings({table.MEMORY_DIR.variable: str(tmp_path / "memory"), **start.variables})
    policy, node = housekeeping_settings(start.variables).eviction, node_of(tmp_path)
    for unified in (False, True):
        here = replace(node, host=replace(node.host, unified_cgroups=unified))
        assert kubelet_configuration(settings, here, "", policy)["singleProcessOOMKill"] is not unified


def test_a_file_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("a: [")
    with pytest.raises(KubeletInputInvalid, match=r"config\.yaml: not YAML: "):
        read([f"--config={config}"])
    config.write_text("kind: Pod\n")
    with pytest.raises(KubeletInputInvalid, match=r"apiVersion: must be kubelet\.config.k8s\.io/v1beta1, not None"):
        read([f"--config={config}"])


def test_what_configz_tells_starts_the_same_node_again(tmp_path: Path) -> None:
    first = started(
        tmp_path,
        "--hostname-override=n1",
        f"--root-dir={tmp_path}/root",
        authentication={"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        authorization={"mode": "AlwaysAllow"},
        readOnlyPort=10255,
        shutdownGracePeriod="30s",
        shutdownGracePeriodCriticalPods="10s",
        cgroupRoot="/above",
        singleProcessOOMKill=True,
        address="0.0.0.0",
        podLogsDir=str(tmp_path / "logs"),
        containerRuntimeEndpoint="unix:///run/c.sock",
        serializeImagePulls=False,
        evictionHard={"memory.available": "250Mi", "nodefs.available": "10%"},
        evictionPressureTransitionPeriod="30s",
        imageGCHighThresholdPercent=100,
        clusterDNS=["10.96.0.10"],
        clusterDomain="cluster.local",
    )
    policy = housekeeping_settings(first.variables).eviction
    (tmp_path / "root").mkdir()
    kept = {table.MEMORY_DIR.variable: str(tmp_path / "memory"), **first.variables}
    told = kubelet_configuration(node_settings(kept), node_of(tmp_path), "", policy)
    again = started(tmp_path, "--hostname-override=n1", f"--root-dir={tmp_path}/root", **told)
    shown = {name: again.variables[name] for name in first.variables if "EVICTION" not in name}
    assert shown == {name: text for name, text in first.variables.items() if "EVICTION" not in name}
    assert housekeeping_settings(again.variables).eviction == policy
    switches = [name for name, row in BY_PATH.items() if row.form == "bool" and True in row.true_for]
    assert [name for name in switches if name not in told] == []
