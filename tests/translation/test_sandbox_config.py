"""Complete configurations compared with reviewed golden files, and changes of a sandbox's configuration."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncpod.pod import Pod
from syncpod.pod.defaults import with_defaults
from syncpod.translation import SandboxConfigError
from syncpod.translation.paths import UnsafeName
from syncpod.translation.sandbox_config import runtime_handler
from tests.translation.translation import NODE, as_data, configured, make_pod, sandbox

GOLDEN = Path(__file__).parent / "golden"


def golden_pod(case: str) -> Pod:
    document = yaml.safe_load((GOLDEN / case / "pod.yaml").read_text())
    return with_defaults(Pod.model_validate(document, extra="forbid"))


def expected(case: str, name: str) -> Any:
    return json.loads((GOLDEN / case / f"{name}.json").read_text())


@pytest.mark.parametrize("case", ["web", "everything"])
def test_the_sandbox_config_of_a_whole_pod_matches_the_golden_file(case: str) -> None:
    assert as_data(sandbox(golden_pod(case), attempt=3)) == expected(case, "sandbox")


@pytest.mark.parametrize("case", ["web", "everything"])
def test_the_container_config_of_a_whole_pod_matches_the_golden_file(case: str) -> None:
    pod = golden_pod(case)
    config = configured(pod, pod.spec.containers[0], restart_count=2)
    assert as_data(config) == expected(case, "main")


def test_the_same_pod_is_always_serialised_to_the_same_bytes() -> None:
    pod = golden_pod("everything")
    first, second = sandbox(pod), sandbox(pod)
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True)


def test_pod_labels_cannot_override_identity_labels() -> None:
    config = sandbox(make_pod(labels={"io.kubernetes.pod.uid": "another", "syncpod.dev/node": "another"}))
    assert config.labels["io.kubernetes.pod.uid"] == config.metadata.uid
    assert config.labels["syncpod.dev/node"] == "node-1"


def test_a_host_network_pod_has_no_host_name_of_its_own() -> None:
    config = sandbox(make_pod({"hostNetwork": True}))
    assert config.hostname == ""
    assert as_data(config.linux.security_context.namespace_options) == {"network": "NODE", "pid": "CONTAINER"}


HOSTNAMES = {
    "the pod's name": ("web", {}, "web"),
    "its own choice": ("web", {"hostname": "front"}, "front"),
    "at most 63 characters": ("a" * 80, {}, "a" * 63),
    "no dash or dot at the end of what was cut": ("b" * 60 + "-.-" + "tail", {}, "b" * 60),
    "the whole name, where the pod asks so": (
        "web",
        {"hostname": "front", "subdomain": "sites", "setHostnameAsFQDN": True},
        "front.sites.default.svc",
    ),
    "the short one of a pod with a subdomain": ("web", {"subdomain": "sites"}, "web"),
    "an override, whatever else is said": ("web", {"hostname": "front", "hostnameOverride": "over.ride"}, "over.ride"),
}


@pytest.mark.parametrize(("name", "spec", "hostname"), HOSTNAMES.values(), ids=HOSTNAMES)
def test_the_host_name_of_a_pod(name: str, spec: dict[str, Any], hostname: str) -> None:
    assert sandbox(make_pod(spec, name=name)).hostname == hostname


def test_an_fqdn_too_long_for_the_kernel_is_an_error() -> None:
    pod = make_pod({"subdomain": "s" * 60, "setHostnameAsFQDN": True})
    with pytest.raises(SandboxConfigError, match=r"spec\.setHostnameAsFQDN: .* the kernel takes 64"):
        sandbox(pod)


SYSCTLS = {
    "net.ipv4.ip_forward": "net.ipv4.ip_forward",
    "net/ipv4/ip_forward": "net.ipv4.ip_forward",
    "net/ipv4/conf/eth0.1/rp_filter": "net.ipv4.conf.eth0/1.rp_filter",
    "net.ipv4.conf.eth0/1.rp_filter": "net.ipv4.conf.eth0/1.rp_filter",
    "word": "word",
}


@pytest.mark.parametrize(("written", "told"), SYSCTLS.items())
def test_slashes_in_a_sysctl_name_become_dots(written: str, told: str) -> None:
    pod = make_pod({"securityContext": {"sysctls": [{"name": written, "value": "1"}]}})
    assert dict(sandbox(pod).linux.sysctls) == {told: "1"}


def test_host_ports_of_main_containers_and_sidecars_are_mapped_once_each() -> None:
    pod = make_pod(
        {
            "initContainers": [
                {"name": "init", "image": "a", "ports": [{"containerPort": 1, "hostPort": 1}]},
                {
                    "name": "side",
                    "image": "a",
                    "restartPolicy": "Always",
                    "ports": [{"containerPort": 2, "hostPort": 2, "protocol": "SCTP"}],
                },
            ],
            "containers": [
                {
                    "name": "main",
                    "image": "a",
                    "ports": [
                        {"name": "http", "containerPort": 80, "hostPort": 8080},
                        {"name": "http", "containerPort": 81, "hostPort": 8081},
                        {"containerPort": 53, "protocol": "UDP", "hostIP": "192.0.2.10"},
                    ],
                }
            ],
        }
    )
    assert [as_data(mapping) for mapping in sandbox(pod).port_mappings] == [
        {"container_port": 80, "host_port": 8080},
        {"protocol": "UDP", "container_port": 53, "host_ip": "192.0.2.10"},
        {"protocol": "SCTP", "container_port": 2, "host_port": 2},
    ]


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
def test_one_privileged_container_of_any_kind_makes_the_sandbox_privileged(kind: str) -> None:
    privileged = {"name": "root", "image": "a", "securityContext": {"privileged": True}}
    assert sandbox(make_pod({kind: [privileged]})).linux.security_context.privileged
    assert not sandbox(make_pod()).linux.security_context.privileged


def test_with_systemd_the_pod_cgroup_is_a_slice_below_that_of_all_pods() -> None:
    config = sandbox(make_pod(uid="a-b"), node=replace(NODE, cgroup_driver="systemd", cgroup_parent="my-node/pods"))
    tier = "/my_node.slice/my_node-pods.slice/my_node-pods-besteffort.slice"
    assert config.linux.cgroup_parent == f"{tier}/my_node-pods-besteffort-poda_b.slice"


@pytest.mark.parametrize(
    "metadata",
    [
        {"uid": "../../etc"},
        {"uid": ""},
        {"uid": "a/b"},
        {"uid": ".."},
        {"name": "../x"},
        {"namespace": "a/b"},
        {"name": "n" * 253},
    ],
    ids=str,
)
def test_a_name_unfit_for_a_log_directory_is_refused(metadata: Any) -> None:
    with pytest.raises(UnsafeName, match=r"^metadata\."):
        sandbox(make_pod(**metadata))


def test_the_runtime_class_name_is_used_as_the_handler() -> None:
    assert runtime_handler(make_pod({"runtimeClassName": "kata"})) == "kata"
    assert runtime_handler(make_pod()) == ""
