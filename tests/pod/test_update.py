"""An update of a pod may change exactly the fields that the API server permits."""

# ruff: noqa: E501 - the tables have one case a line

from typing import Any

import pytest

from syncpod.pod import Pod, merge_update, parse_pod, validate_update, with_defaults
from tests.pod.examples import changed

C = "spec.containers.0"
INIT = "spec.initContainers.0"
FIXED = "may not be changed; delete the pod and apply it again"


def a_pod(changes: dict[str, Any]) -> Pod:
    return with_defaults(parse_pod(changed(changes)))


def problems(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in validate_update(a_pod(old), a_pod(new))]


TOLERATION = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}

ALLOWED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({}, {f"{C}.image": "registry.local/server:2", "spec.initContainers.0.image": "registry.local/setup:2"}),
    ({}, {f"{C}.image": "registry.local/server"}),
    ({}, {"metadata.labels": {"a": "b"}, "metadata.annotations": {"c": "d"}}),
    ({"metadata.labels": {"a": "b"}}, {}),
    ({}, {"spec.activeDeadlineSeconds": 10}),
    ({"spec.activeDeadlineSeconds": 10}, {"spec.activeDeadlineSeconds": 9}),
    ({}, {"spec.tolerations": [TOLERATION]}),
    ({"spec.tolerations": [TOLERATION]}, {"spec.tolerations": [{"operator": "Exists"}, TOLERATION]}),
    ({"spec.tolerations": [TOLERATION]}, {"spec.tolerations": [TOLERATION | {"tolerationSeconds": 1}]}),
    ({"spec.schedulingGates": [{"name": "g"}]}, {}),
    ({f"{C}.ports": [{"containerPort": 1, "hostPort": 0}]}, {f"{C}.ports": [{"containerPort": 1, "protocol": "TCP"}]}),
    ({"metadata.uid": "u", "spec.nodeName": "n"}, {}),
    ({"spec.ephemeralContainers": [{"name": "d", "image": "i"}]}, {}),
    ({f"{C}.resources": {"limits": {"cpu": "1"}}}, {f"{C}.resources": {"limits": {"cpu": "1000m"}}}),
    ({f"{C}.resources": {"limits": {"cpu": "1"}}}, {f"{C}.resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}),
    (
        {},
        {
            "spec.initContainers.0.resources": {"requests": {"memory": "1Gi"}},
            "spec.resources": {"requests": {"memory": "2Gi"}},
        },
    ),
    ({"status": {"phase": "Running"}, "metadata.creationTimestamp": "2026-01-01T00:00:00Z"}, {}),
]


@pytest.mark.parametrize(("old", "new"), ALLOWED, ids=str)
def test_changes_that_are_allowed_are_accepted(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert problems(old, new) == []


RESTARTS = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
REMOVED = "may not be removed, only changed; delete the pod and apply it again"
OTHER_RESOURCE = "may not be changed, only cpu and memory may; delete the pod and apply it again"

REFUSED: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({}, {"metadata.name": "other"}, [f"metadata.name: {FIXED}"]),
    ({"metadata.uid": "u"}, {"metadata.uid": "v"}, ["metadata.uid: is another pod's: web has u"]),
    ({}, {f"{C}.command": ["x"]}, [f"spec.containers[0].command: {FIXED}"]),
    ({f"{C}.command": ["x"]}, {f"{C}.command": ["y"]}, [f"spec.containers[0].command[0]: {FIXED}"]),
    ({}, {f"{C}.name": "renamed"}, [f"spec.containers[0].name: {FIXED}"]),
    ({}, {"spec.containers": [{"name": "server", "image": "a"}]}, [f"spec.containers: {FIXED}"]),
    ({}, {f"{C}.imagePullPolicy": "Never"}, [f"spec.containers[0].imagePullPolicy: {FIXED}"]),
    ({}, {"spec.restartPolicy": "Never", "spec.hostPID": True}, [f"spec.hostPID: {FIXED}", f"spec.restartPolicy: {FIXED}"]),
    ({}, {"spec.terminationGracePeriodSeconds": 1}, [f"spec.terminationGracePeriodSeconds: {FIXED}"]),
    ({}, {"spec.volumes.0": {"name": "work", "hostPath": {"path": "/a"}}}, [f"spec.volumes[0].emptyDir: {FIXED}", f"spec.volumes[0].hostPath: {FIXED}"]),
    ({"spec.nodeName": "n"}, {"spec.nodeName": "m"}, [f"spec.nodeName: {FIXED}"]),
    ({"spec.activeDeadlineSeconds": 10}, {"spec.activeDeadlineSeconds": 11}, ["spec.activeDeadlineSeconds: may be lowered from 10, not raised or removed"]),
    ({"spec.activeDeadlineSeconds": 10}, {}, ["spec.activeDeadlineSeconds: may be lowered from 10, not raised or removed"]),
    ({"spec.tolerations": [TOLERATION]}, {}, ["spec.tolerations: may only be added to; delete the pod and apply it again to remove one"]),
    ({}, {"spec.schedulingGates": [{"name": "g"}]}, ["spec.schedulingGates: may only be removed"]),
    ({f"{C}.resources": {"limits": {"cpu": "1"}}}, {}, [f"spec.containers[0].resources.limits[cpu]: {REMOVED}", f"spec.containers[0].resources.requests[cpu]: {REMOVED}"]),
    ({"spec.resources": {"requests": {"memory": "1Gi"}}}, {}, [f"spec.resources.requests[memory]: {REMOVED}"]),
    ({f"{C}.resources": {"limits": {"ephemeral-storage": "1Gi"}}}, {f"{C}.resources": {"limits": {"ephemeral-storage": "2Gi"}, "requests": {"ephemeral-storage": "1Gi"}}}, [f"spec.containers[0].resources.limits[ephemeral-storage]: {OTHER_RESOURCE}"]),
    ({f"{INIT}.resizePolicy": RESTARTS, f"{INIT}.resources": {"limits": {"cpu": "1"}}}, {f"{INIT}.resizePolicy": RESTARTS, f"{INIT}.resources": {"limits": {"cpu": "2"}}}, ["spec.initContainers[0].resources: may not be changed: an init container that is not a sidecar is not restarted for it"]),
    ({f"{C}.resizePolicy": RESTARTS}, {}, [f"spec.containers[0].resizePolicy: {FIXED}"]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), REFUSED, ids=[expected[0][:80] for _, _, expected in REFUSED])
def test_changes_of_immutable_fields_are_refused_by_path(
    old: dict[str, Any], new: dict[str, Any], expected: list[str]
) -> None:
    assert problems(old, new) == expected


def test_an_update_takes_the_new_spec_and_keeps_identity_and_status() -> None:
    kept = {"metadata.uid": "u", "metadata.generation": 3, "status": {"phase": "Running"}, "spec.nodeName": "n"}
    old = a_pod(kept | {"metadata.labels": {"old": "1"}, "spec.ephemeralContainers": [{"name": "d", "image": "i"}]})
    new = a_pod({f"{C}.image": "registry.local/server", "metadata.labels": {"new": "2"}})
    merged = merge_update(old, new)
    assert merged.spec.containers[0].image == "registry.local/server"
    assert merged.spec.containers[0].image_pull_policy == "IfNotPresent"
    assert merged.metadata == old.metadata.model_copy(update={"labels": {"new": "2"}, "generation": 4})
    assert (merged.status, merged.spec.node_name) == (old.status, "n")
    assert merged.spec.ephemeral_containers == old.spec.ephemeral_containers


def test_the_generation_of_a_cluster_counts() -> None:
    old, new = a_pod({"metadata.generation": 3}), a_pod({"metadata.generation": 7})
    assert merge_update(old, new).metadata.generation == 7
    resized = a_pod({"metadata.generation": 9, f"{C}.image": "registry.local/server"})
    assert merge_update(old, resized).metadata.generation == 9


def test_only_a_cluster_changes_the_owners_of_its_pods() -> None:
    bound = {
        "metadata.uid": "u",
        "metadata.annotations": {"kubernetes.io/config.source": "kubernetes", "kubernetes.io/config.hash": "u"},
    }
    old = a_pod(bound | {"metadata.ownerReferences": [{"kind": "ReplicaSet", "name": "a", "controller": True}]})
    assert merge_update(old, a_pod({})).metadata.owner_references == old.metadata.owner_references
    assert merge_update(old, a_pod(bound)).metadata.owner_references == ()
    assert merge_update(a_pod(bound), old) == old


def test_an_update_with_the_same_spec_changes_nothing() -> None:
    old = a_pod({"metadata.uid": "u", "spec.nodeName": "n"})
    assert merge_update(old, a_pod({})) == old
    assert merge_update(old, a_pod({"metadata.labels": {"a": "b"}})).metadata.generation is None
