"""The defaults are those of the API server."""

from typing import Any

import pytest

from syncpod.pod import Pod, parse_image_name, parse_pod, pod_to_wire, with_defaults
from tests.pod.examples import changed, pod


def completed(document: dict[str, Any]) -> Pod:
    return with_defaults(parse_pod(document))


def test_a_minimal_pod_gets_the_defaults_of_the_api_server() -> None:
    assert pod_to_wire(
        completed({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    ) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "imagePullPolicy": "Always",
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }
            ],
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "terminationGracePeriodSeconds": 30,
            "schedulerName": "default-scheduler",
            "enableServiceLinks": True,
            "securityContext": {},
        },
    }


def test_defaults_do_not_override_set_fields() -> None:
    document = pod(
        metadata__namespace="n",
        spec__restartPolicy="Never",
        spec__dnsPolicy="Default",
        spec__terminationGracePeriodSeconds=0,
        spec__enableServiceLinks=False,
        spec__schedulerName="mine",
        spec__securityContext={"runAsUser": 0},
    )
    document["spec"]["containers"][0] |= {
        "imagePullPolicy": "Never", "terminationMessagePath": "/m", "terminationMessagePolicy": "FallbackToLogsOnError",
        "ports": [{"containerPort": 1, "protocol": "UDP"}],
        "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}},
    }  # fmt: skip
    before, after = parse_pod(document), completed(document)
    assert after.spec.containers[0] == before.spec.containers[0]
    assert after.spec.model_copy(update={"containers": (), "init_containers": ()}) == before.spec.model_copy(
        update={"containers": (), "init_containers": ()}
    )


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.29", "IfNotPresent"),
        ("localhost:5000/nginx", "Always"),
        ("localhost:5000/nginx:1", "IfNotPresent"),
        (f"nginx@sha256:{'0' * 64}", "IfNotPresent"),
        (f"nginx:latest@sha256:{'0' * 64}", "Always"),
        ("<your image>", "IfNotPresent"),
        ("Nginx", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_from_the_tag(image: str, policy: str) -> None:
    document = changed({"spec.containers.0.image": image, "spec.initContainers.0.image": image})
    spec = completed(document).spec
    assert {spec.containers[0].image_pull_policy, spec.init_containers[0].image_pull_policy} == {policy}


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("nginx", ("docker.io/library/nginx", "latest", "")),
        ("me/app:1", ("docker.io/me/app", "1", "")),
        ("index.docker.io/nginx", ("docker.io/library/nginx", "latest", "")),
        ("registry.local/a/b-c__d:1.2_x", ("registry.local/a/b-c__d", "1.2_x", "")),
        ("registry:5000/a", ("registry:5000/a", "latest", "")),
        ("[::1]:5000/a:1", ("[::1]:5000/a", "1", "")),
        ("LOCAL/a", ("LOCAL/a", "latest", "")),
        (f"a@sha256:{'0' * 64}", ("docker.io/library/a", "", f"sha256:{'0' * 64}")),
        ("a:", None),
        ("a@sha256:0", None),
        ("a/B", None),
        ("a//b", None),
        ("-a", None),
        ("a b", None),
        ("0" * 64, None),
        ("registry.local/" + "a" * 256, None),
    ],
)
def test_an_image_reference_is_parsed_or_rejected(image: str, parts: tuple[str, str, str] | None) -> None:
    assert parse_image_name(image) == parts


def test_requests_default_to_limits_and_amounts_are_rounded_to_thousandths() -> None:
    document = changed(
        {"spec.containers.0.resources": {"limits": {"cpu": "0.1m", "memory": "1Gi"}, "requests": {"memory": "1M"}}}
    )
    resources = completed(document).spec.containers[0].resources
    assert resources.limits == {"cpu": "1m", "memory": "1Gi"}
    assert resources.requests == {"cpu": "1m", "memory": "1M"}


WHOLE: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nothing said of it": ({}, {}, {}),
    "a limit is the request": (
        {"limits": {"cpu": "2", "memory": "1Gi"}},
        {},
        {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "2", "memory": "1Gi"}},
    ),
    "but what the containers request goes before": (
        {"limits": {"cpu": "2"}},
        {"requests": {"cpu": "0.3", "memory": "1024Mi", "ephemeral-storage": "1Gi"}},
        {"limits": {"cpu": "2"}, "requests": {"cpu": "600m", "memory": "2Gi"}},
    ),
    "and what is said stays": (
        {"limits": {"cpu": "2"}, "requests": {"cpu": "1.5"}},
        {"requests": {"cpu": "300m"}},
        {"limits": {"cpu": "2"}, "requests": {"cpu": "1.5"}},
    ),
    "requests alone are all there is": (
        {"requests": {"cpu": "1"}},
        {"requests": {"memory": "1Gi"}},
        {"requests": {"cpu": "1"}},
    ),
    "huge pages are what the containers may have": (
        {"requests": {"cpu": "1"}},
        {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "4Mi"}},
        {"limits": {"hugepages-2Mi": "8Mi"}, "requests": {"cpu": "1", "hugepages-2Mi": "8Mi"}},
    ),
    "to thousandths": (
        {"limits": {"cpu": "0.1m"}},
        {},
        {"limits": {"cpu": "1m"}, "requests": {"cpu": "1m"}},
    ),
}


@pytest.mark.parametrize(("said", "of_each", "expected"), WHOLE.values(), ids=WHOLE)
def test_defaults_of_pod_level_resources(
    said: dict[str, Any], of_each: dict[str, Any], expected: dict[str, Any]
) -> None:
    containers = [{"name": name, "image": "i", "resources": of_each} for name in ("a", "b")]
    once = completed(pod(spec__resources=said, spec__containers=containers))
    assert pod_to_wire(once)["spec"].get("resources", {}) == expected
    assert with_defaults(once) == once


def test_ports_default_to_tcp_and_to_the_host_port_with_host_network() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]
    document = changed({"spec.containers.0.ports": ports, "spec.initContainers.0.ports": ports})
    apart, shared = completed(document).spec, completed(changed({"spec.hostNetwork": True}, document)).spec
    assert [(port.protocol, port.host_port) for port in apart.containers[0].ports] == [("TCP", None), ("TCP", 8081)]
    assert [port.host_port for port in shared.containers[0].ports] == [80, 8081]
    assert [port.host_port for port in shared.init_containers[0].ports] == [80, 8081]


def test_probes_and_hooks_get_default_numbers_and_schemes() -> None:
    document = changed(
        {
            "spec.containers.0.livenessProbe": {"httpGet": {"port": 80}},
            "spec.containers.0.readinessProbe": {"grpc": {"port": 1}, "periodSeconds": 5},
            "spec.containers.0.lifecycle": {"preStop": {"httpGet": {"port": "http"}}},
        }
    )
    container = pod_to_wire(completed(document).spec.containers[0])
    assert container["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
    }  # fmt: skip
    assert container["readinessProbe"]["grpc"] == {"port": 1, "service": ""}
    assert container["readinessProbe"]["periodSeconds"] == 5
    assert container["lifecycle"] == {"preStop": {"httpGet": {"port": "http", "path": "/", "scheme": "HTTP"}}}


def test_volumes_get_a_default_source_mode_and_type() -> None:
    ref = {"fieldRef": {"fieldPath": "metadata.name"}, "path": "n"}
    sources = [{"serviceAccountToken": {"path": "t"}}, {"downwardAPI": {"items": [ref]}}]
    document = pod(
        spec__volumes=[
            {"name": "a"},
            {"name": "b", "hostPath": {"path": "/b"}},
            {"name": "c", "secret": {"secretName": "s"}},
            {"name": "d", "configMap": {"name": "m", "defaultMode": 256}},
            {"name": "e", "downwardAPI": {"items": [ref]}},
            {"name": "f", "projected": {"sources": sources}},
            {"name": "g", "image": {"reference": "a:1"}},
        ]
    )  # fmt: skip
    full = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}, "path": "n"}
    assert pod_to_wire(completed(document))["spec"]["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "hostPath": {"path": "/b", "type": ""}},
        {"name": "c", "secret": {"secretName": "s", "defaultMode": 420}},
        {"name": "d", "configMap": {"name": "m", "defaultMode": 256}},
        {"name": "e", "downwardAPI": {"items": [full], "defaultMode": 420}},
        {
            "name": "f",
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
                    {"downwardAPI": {"items": [full]}},
                ],
                "defaultMode": 420,
            },
        },
        {"name": "g", "image": {"reference": "a:1", "pullPolicy": "IfNotPresent"}},
    ]


def test_an_app_armor_annotation_becomes_the_containers_profile() -> None:
    prefix = "container.apparmor.security.beta.kubernetes.io"
    document = pod(
        metadata__annotations={
            f"{prefix}/server": "localhost/tight",
            f"{prefix}/log": "runtime/default",
            f"{prefix}/setup": "unconfined",
        },
        spec__securityContext={"appArmorProfile": {"type": "RuntimeDefault"}},
    )
    spec = completed(document).spec
    assert pod_to_wire(spec.containers[0].security_context or Pod()) == {
        "appArmorProfile": {"type": "Localhost", "localhostProfile": "tight"}
    }
    assert spec.containers[1].security_context is None
    setup = spec.init_containers[0].security_context
    assert setup is not None and setup.app_armor_profile is not None and setup.app_armor_profile.type == "Unconfined"


def test_a_negative_grace_period_becomes_one_second() -> None:
    assert (
        with_defaults(parse_pod(pod(spec__terminationGracePeriodSeconds=-5))).spec.termination_grace_period_seconds == 1
    )
