"""Features that the runtime does not report as supported are refused by field."""

import dataclasses
from typing import Any

import pytest

from syncpod.cri.port import RuntimeHandler, RuntimeStatus, RuntimeVersion
from syncpod.translation.features import depends_on_runtime, needs_details, recursive_read_only_handlers, refusals
from tests.translation.translation import make_pod


def status(*handlers: RuntimeHandler, strict_groups: bool = False) -> RuntimeStatus:
    return RuntimeStatus(
        runtime_ready=True,
        network_ready=True,
        runtime_message="",
        network_message="",
        supplemental_groups_policy=strict_groups,
        user_namespaces_host_network=False,
        mount_options=False,
        runtime_handlers=handlers,
        info={},
    )


OLD = status()
"""The status of containerd 1.6, which reports no features."""
PLAIN = RuntimeHandler("", recursive_read_only_mounts=False, user_namespaces=False)
ABLE = RuntimeHandler("able", recursive_read_only_mounts=True, user_namespaces=True)
NEW = status(PLAIN, ABLE, strict_groups=True)

RECURSIVE = {
    "containers": [
        {
            "name": "main",
            "image": "a",
            "volumeMounts": [
                {"name": "v", "mountPath": "/a", "readOnly": True},
                {"name": "v", "mountPath": "/b", "readOnly": True, "recursiveReadOnly": "Enabled"},
            ],
        }
    ],
    "volumes": [{"name": "v", "emptyDir": {}}],
}
STRICT = {"securityContext": {"supplementalGroupsPolicy": "Strict"}}

READ_ONLY_PATH = "spec.containers[0].volumeMounts[1].recursiveReadOnly"
OF_ABLE = {"runtimeClassName": "able"}

CASES: dict[str, tuple[dict[str, Any], RuntimeStatus, list[str]]] = {
    "nothing special, anywhere": ({}, OLD, []),
    "strict groups, not announced": (STRICT, OLD, ["spec.securityContext.supplementalGroupsPolicy"]),
    "strict groups, announced": (STRICT, NEW, []),
    "merged groups need nothing": ({"securityContext": {"supplementalGroupsPolicy": "Merge"}}, OLD, []),
    "recursive read-only, not announced": (RECURSIVE, OLD, [READ_ONLY_PATH]),
    "recursive read-only of another handler": (RECURSIVE, NEW, [READ_ONLY_PATH]),
    "recursive read-only of this handler": ({**RECURSIVE, **OF_ABLE}, NEW, []),
    "user namespaces, not announced": ({"hostUsers": False}, OLD, ["spec.hostUsers"]),
    "user namespaces, which are not made yet": ({"hostUsers": False, **OF_ABLE}, NEW, ["spec.hostUsers"]),
    "the host's users need nothing": ({"hostUsers": True}, OLD, []),
    "an unknown handler": ({"runtimeClassName": "kata"}, NEW, ["spec.runtimeClassName"]),
    "a handler where none is announced": ({"runtimeClassName": "kata"}, OLD, []),
    "all at once": (
        {"hostUsers": False, **STRICT, **RECURSIVE},
        OLD,
        [
            "spec.securityContext.supplementalGroupsPolicy",
            "spec.hostUsers",
            READ_ONLY_PATH,
        ],
    ),
}


@pytest.mark.parametrize(("spec", "runtime", "paths"), CASES.values(), ids=CASES)
def test_an_unannounced_feature_is_refused_by_field(
    spec: dict[str, Any], runtime: RuntimeStatus, paths: list[str]
) -> None:
    assert [sentence.partition(": ")[0] for sentence in refusals(make_pod(spec), runtime)] == paths


OF_AN_IMAGE = {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "image": {"reference": "tools:1"}}]}
VERSIONS = [
    ("containerd", "1.6.20~ds1", False),
    ("containerd", "v2.0.9", False),
    ("containerd", "v2.1.0-beta.1", True),
    ("containerd", "2.10.1", True),
    ("containerd", "3.0.0", True),
    ("cri-o", "1.32.4", False),
    ("cri-o", "1.33.0", True),
    ("syncpod", "9.9", False),
    ("containerd", "unknown", False),
]


@pytest.mark.parametrize(("name", "version", "able"), VERSIONS)
def test_image_volumes_are_accepted_on_runtimes_that_support_them(name: str, version: str, able: bool) -> None:
    pod = make_pod(OF_AN_IMAGE)
    assert needs_details(pod)
    expected = () if able else (
        f"spec.volumes[1].image: {name} {version} cannot mount images; containerd can from 2.1, CRI-O from 1.33",
    )  # fmt: skip
    assert refusals(pod, OLD, RuntimeVersion(name, version)) == expected


OF_THE_MACHINE = {
    "securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "9"}]},
    "containers": [
        {
            "name": "main",
            "image": "a",
            "ports": [{"containerPort": 1}, {"containerPort": 80, "hostPort": 8080}],
            "volumeMounts": [{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}],
        }
    ],
    "volumes": [{"name": "v", "emptyDir": {}}],
}
"""Requests that pods cannot have if containers are processes of the machine."""
EMBEDDED = RuntimeVersion("syncpod-embedded", "1.0")


def test_what_the_embedded_runtime_refuses_is_refused_before_it_is_asked_by_field() -> None:
    pod = make_pod(OF_THE_MACHINE)
    assert needs_details(pod)
    assert [sentence.partition(": ")[0] for sentence in refusals(pod, OLD, EMBEDDED)] == [
        "spec.containers[0].ports[1].hostPort",
        "spec.containers[0].volumeMounts[0].mountPropagation",
        "spec.securityContext.sysctls",
    ]
    simulates = dataclasses.replace(OLD, info={"config": '{"isolation": "simulated"}'})
    assert refusals(pod, simulates, EMBEDDED) == refusals(pod, OLD, RuntimeVersion("containerd", "2.4")) == ()


def test_the_runtime_is_asked_for_details_only_if_they_matter() -> None:
    port = {"name": "main", "image": "a", "ports": [{"containerPort": 80, "hostPort": 80}]}
    assert not needs_details(make_pod())
    assert not needs_details(make_pod({"hostNetwork": True, "containers": [port]}))


@pytest.mark.parametrize(("spec", "runtime", "paths"), CASES.values(), ids=CASES)
def test_a_pod_that_some_runtime_refuses_depends_on_its_runtime(
    spec: dict[str, Any], runtime: RuntimeStatus, paths: list[str]
) -> None:
    assert depends_on_runtime(make_pod(spec)) or not paths


def test_a_pod_that_every_runtime_can_run_does_not_depend_on_its_runtime() -> None:
    assert not depends_on_runtime(make_pod({}))


def test_an_unknown_runtime_handler_is_refused_with_the_known_ones() -> None:
    (sentence,) = refusals(make_pod({"runtimeClassName": "kata"}), NEW)
    assert sentence == "spec.runtimeClassName: the runtime has no handler 'kata'; it has able"


def test_handlers_with_recursive_read_only_mounts_are_remembered() -> None:
    assert recursive_read_only_handlers(NEW) == ("able",)
    assert recursive_read_only_handlers(OLD) == ()
