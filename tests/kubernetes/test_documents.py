"""Documents that a node writes for its pods and itself: parts of others are kept, and unchanged ones not written."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from syncpod.fleet.taints import TaintsInvalid, parse_taints
from syncpod.kubernetes import node as nodes
from syncpod.kubernetes import node_changes
from syncpod.kubernetes.bound_pod import bound_pod, concern
from syncpod.kubernetes.certificates import answered
from syncpod.kubernetes.json_documents import merge_patch
from syncpod.kubernetes.mirror_pod import mirrored_uid
from syncpod.kubernetes.node import Machine
from syncpod.kubernetes.pod_status import (
    pod_status,
    rejected,
    same,
    status_for,
    status_patch,
    without_replaced_ends,
)
from syncpod.kubernetes.readiness_gates import GateCondition, has_gates, news_of_gates
from syncpod.kubernetes.reflector import key_of
from syncpod.messages.node import NodeAddress, NodeCondition, NodeInfo, NodeStatus
from syncpod.pod import admit
from tests.kubernetes.api_server import pod

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}


def status_of(before: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """The status that the node writes."""
    return pod_status(before, ours)


def test_conditions_of_others_stay_and_ours_keep_their_transition() -> None:
    gate = {"type": "example.com/gate", "status": "True"}
    before = {"phase": "Running", "conditions": [gate, READY], "nominatedNodeName": "n2"}
    ready = {**READY, "lastTransitionTime": "2026-11-01T09:00:00Z", "observedGeneration": 3}
    ours = {"phase": "Running", "conditions": [ready], "observedGeneration": 3}
    status = status_of(before, ours)
    assert status["conditions"] == [gate, {"lastProbeTime": None, **READY, "observedGeneration": 3}]
    assert status["nominatedNodeName"] == "n2"
    assert status["observedGeneration"] == 3
    changed = status_of(before, {"conditions": [{**READY, "status": "False", "lastTransitionTime": "now"}]})
    assert changed["conditions"][1]["lastTransitionTime"] == "now"


def test_the_generation_that_was_observed_never_falls_and_a_deletion_makes_one() -> None:
    assert status_of({"observedGeneration": 3}, {"observedGeneration": 2})["observedGeneration"] == 3
    resize = {"type": "PodResizeInProgress", "status": "True", "observedGeneration": 2}
    ours = {"metadata": {}, "status": {"conditions": [resize], "observedGeneration": 3}}
    deleted = pod("web", metadata={"generation": 4, "deletionTimestamp": "2026-11-01T00:00:00Z"})
    assert status_for(deleted, ours) == ours["status"]  # the pod's workflow does not know it yet
    joined = status_for(pod("web", metadata={"generation": 2}), ours)
    assert (joined["observedGeneration"], joined["conditions"][0]["observedGeneration"]) == (2, 2)
    ended = status_for(deleted, {**ours, "metadata": {"deletionTimestamp": "2026-11-01T00:00:00Z"}})
    assert (ended["observedGeneration"], ended["conditions"][0]["observedGeneration"]) == (4, 4)
    mirror = pod("web", metadata={"generation": 4, "annotations": {"kubernetes.io/config.mirror": "h"}})
    assert status_for(mirror, ours)["observedGeneration"] is None


def test_a_merge_patch_makes_one_object_the_other() -> None:
    before = {"a": 1, "b": {"c": 1, "d": {"e": 2}}, "l": [1, 2], "same": {"x": 1}, "gone": {"y": 1}}
    after = {"a": 2, "b": {"d": {"f": 3}}, "l": [2], "same": {"x": 1}, "new": {"z": None}, "null": None}
    patch = merge_patch(before, after)
    assert patch == {"a": 2, "b": {"c": None, "d": {"e": None, "f": 3}}, "l": [2], "gone": None, "new": {"z": None}}
    assert merge_patch(before, before) == {}


def test_a_shared_condition_is_ours_while_we_have_it() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    assert status_of({"conditions": [target]}, {})["conditions"] == [target]
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    assert status_of({"conditions": [target]}, {"conditions": [evicted]})["conditions"][0]["reason"] == (
        "TerminationByKubelet"
    )


def test_an_end_is_told_once_nothing_runs_and_is_never_taken_back() -> None:
    running = {"phase": "Failed", "containerStatuses": [{"name": "app", "state": {"running": {}}}]}
    assert status_of({"phase": "Pending"}, {**running, "containerStatuses": []})["phase"] == "Failed"
    running["containerStatuses"] = [{"name": "app", "state": {"running": {"startedAt": "x"}}}]
    assert status_of({"phase": "Running"}, running)["phase"] == "Running"
    assert status_of({"phase": "Failed"}, {"phase": "Running"})["phase"] == "Failed"


def test_a_patch_holds_for_one_version_and_removes_what_is_no_more() -> None:
    given = pod("web", metadata={"resourceVersion": "7"})
    given["status"] = {"phase": "Pending", "message": "waits", "conditions": None}
    patch = status_patch(given, {"phase": "Running"})
    assert patch == {
        "metadata": {"uid": "uid-of-web", "resourceVersion": "7"},
        "status": {"message": None, "conditions": None, "phase": "Running"},
    }
    assert status_patch(given, {"phase": "Pending", "message": "waits", "reason": ""}) is None


def test_what_is_empty_is_the_same_as_what_is_absent() -> None:
    assert same({"a": None, "b": {}, "c": [{"d": ""}]}, {"c": [{}]})
    assert not same({"a": 0}, {})


def test_a_rejected_pod_fails_with_its_reason() -> None:
    given = pod("web", metadata={"generation": 2}, status={"qosClass": "Burstable", "containerStatuses": [1]})
    assert rejected("NodePorts", "no", given) == {
        "qosClass": "Burstable",
        "phase": "Failed",
        "reason": "NodePorts",
        "message": "no",
        "observedGeneration": 2,
    }


def test_a_bound_pod_has_the_authors_part_alone() -> None:
    given = pod("web", metadata={"resourceVersion": "7", "labels": {"a": "b"}, "ownerReferences": []})
    given["metadata"]["managedFields"] = [{}]
    found = bound_pod(given)
    assert found is not None
    assert found.document is not None
    assert not found.refusal
    assert found.grace is None
    assert found.document["metadata"] == {
        "name": "web",
        "namespace": "default",
        "uid": "uid-of-web",
        "labels": {"a": "b"},
        "annotations": {"kubernetes.io/config.source": "kubernetes", "kubernetes.io/config.hash": "uid-of-web"},
        "generation": 1,
    }
    assert "nodeName" not in found.document["spec"] or found.document["spec"]["nodeName"] == "n1"
    given["status"] = {"phase": "Running"}
    again = bound_pod(given)
    assert again is not None
    assert again.document == found.document


def test_a_bound_pod_has_the_owners_that_the_cluster_gives_it() -> None:
    """Also when they change: a ReplicaSet may adopt a pod that runs."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u-1", "controller": True}
    alone, owned = pod("web"), pod("web", metadata={"ownerReferences": [owner | {"fieldOfTomorrow": 1}]})
    assert concern(alone) != concern(owned)
    found = bound_pod(owned)
    assert found is not None and found.document is not None
    assert found.document["metadata"]["ownerReferences"] == [owner] and found.warnings == ()
    assert admit(found.document).pod.metadata.owner_references, "its workflow admits it once more"
    mine = {**owned, "metadata": {"name": "web", "ownerReferences": [owner]}}
    admitted = admit({**mine, "apiVersion": "v1", "kind": "Pod"})
    assert not admitted.pod.metadata.owner_references
    assert "metadata.ownerReferences" in [each.path for each in admitted.warnings]


def test_a_bound_pod_that_the_node_cannot_take_says_why() -> None:
    found = bound_pod(pod("web", spec={"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]}))
    assert found is not None
    assert found.document is None
    assert found.refusal is not None
    assert found.refusal.reason == "UnsupportedByNode"
    assert "spec.volumes[0].nfs" in found.refusal.message


def test_a_pod_for_another_operating_system_is_rejected_in_the_kubelets_words() -> None:
    found = bound_pod(pod("web", spec={"os": {"name": "windows"}}))
    assert found is not None
    assert found.refusal == ("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")


def test_a_bound_pod_has_its_ephemeral_containers_and_the_clusters_generation() -> None:
    debugger = {"name": "debugger", "image": "busybox:1", "targetContainerName": "app", "fieldOfTomorrow": 1}
    found = bound_pod(pod("web", spec={"ephemeralContainers": [debugger]}, metadata={"generation": 2}))
    assert found is not None
    assert found.document is not None
    assert found.document["metadata"]["generation"] == 2
    (joined,) = found.document["spec"]["ephemeralContainers"]
    assert (joined["name"], joined["targetContainerName"]) == ("debugger", "app")
    assert "fieldOfTomorrow" not in joined


def test_what_is_for_windows_is_ignored_with_a_warning_as_by_a_kubelet_on_linux() -> None:
    context = {"windowsOptions": {"runAsUserName": "u"}, "runAsUser": 7}
    given = pod("web", spec={"securityContext": context})
    given["spec"]["containers"][0]["securityContext"] = context
    found = bound_pod(given)
    assert found is not None
    assert found.document is not None
    assert found.document["spec"]["securityContext"] == {"runAsUser": 7}
    assert found.document["spec"]["containers"][0]["securityContext"] == {"runAsUser": 7}
    assert [each.partition(": ")[0] for each in found.warnings] == [
        "spec.securityContext.windowsOptions",
        "spec.containers[0].securityContext.windowsOptions",
    ]
    assert given["spec"]["securityContext"] == context


def test_a_field_of_a_newer_server_is_no_reason_to_refuse_a_pod() -> None:
    found = bound_pod(pod("web", spec={"fieldOfTomorrow": 1}))
    assert found is not None
    assert found.document is not None


def test_a_deleted_pod_has_its_grace_period_and_one_without_name_is_none() -> None:
    given = pod("web", metadata={"deletionTimestamp": "2026-11-01T00:00:00Z", "deletionGracePeriodSeconds": 5})
    found = bound_pod(given)
    assert found is not None
    assert found.grace == 5
    given["metadata"]["uid"] = ""
    assert bound_pod(given) is None


def node_status() -> NodeStatus:
    """A node's own status."""
    return NodeStatus(
        conditions=(NodeCondition(type="Ready", status="True", reason="KubeletReady", last_transition_time=AT),),
        labels={"disk": "ssd"},
        capacity={"cpu": "2"},
        allocatable={"cpu": "2"},
        addresses=(NodeAddress(type="InternalIP", address="10.0.0.1"),),
        node_info=NodeInfo(kubelet_version="v0.1.0", operating_system="linux", architecture="amd64"),
    )


def test_a_node_registers_with_its_labels_and_the_kubelets_version_that_it_follows() -> None:
    node = nodes.new_node("n1", node_status(), Machine("m", "s", "b"), AT)
    assert node["metadata"]["labels"] == {
        "disk": "ssd",
        "kubernetes.io/hostname": "n1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
    }
    assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.2+syncpod.0.1.0"
    assert node["status"]["capacity"] == {"pods": "110", "cpu": "2"}
    assert nodes.labels_patch(node, "n1", node_status()) is None


def test_a_new_node_has_the_taints_of_its_settings() -> None:
    taints = parse_taints("dedicated=edge:NoSchedule,spare:NoExecute")
    node = nodes.new_node("n1", node_status(), Machine("m", "s", "b"), AT, taints=taints)
    assert node["spec"]["taints"] == [
        {"key": "dedicated", "value": "edge", "effect": "NoSchedule"},
        {"key": "spare", "value": "", "effect": "NoExecute"},
    ]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("edge", "its effect must be one of NoSchedule, PreferNoSchedule, NoExecute"),
        ("edge:Never", "its effect must be one of NoSchedule, PreferNoSchedule, NoExecute"),
        ("=x:NoSchedule", "taint '=x:NoSchedule': "),
        ("a=b c:NoSchedule", "taint 'a=b c:NoSchedule': "),
        ("a:NoExecute,a=b:NoExecute", "taint 'a=b:NoExecute': is named twice; write key=value:effect"),
    ],
)
def test_a_taint_that_is_none_is_named(text: str, wrong: str) -> None:
    with pytest.raises(TaintsInvalid, match=re.escape(wrong)):
        parse_taints(text)


def test_foreign_parts_of_a_node_stay() -> None:
    network = {"type": "NetworkUnavailable", "status": "False"}
    before = {
        "capacity": {"cpu": "1", "example.com/gpu": "4"},
        "conditions": [network, {"type": "Ready", "status": "True", "lastTransitionTime": "earlier"}],
        "volumesInUse": ["v"],
    }
    status = nodes.node_status(before, node_status(), Machine(), AT)
    assert status["capacity"] == {"cpu": "2", "pods": "110", "example.com/gpu": "4"}
    assert status["conditions"][0] == network
    assert status["conditions"][1]["lastTransitionTime"] == "earlier"
    assert status["volumesInUse"] == ["v"]
    later = nodes.node_status(status, node_status(), Machine(), AT.replace(hour=13))
    assert not nodes.has_changed(status, later)
    assert later != status


def test_the_conditions_of_gates_that_a_workflow_does_not_know_are_news() -> None:
    given = pod("web", spec={"readinessGates": [{"conditionType": "a.b/c"}, {"conditionType": "a.b/d"}]})
    assert has_gates(given)
    assert news_of_gates(given, ()) == []
    there = {"type": "a.b/c", "status": "True", "message": "x" * 5000}
    given["status"] = {"conditions": [there, {"type": "Ready", "status": "True"}, {"type": "a.b/e", "status": "True"}]}
    news = news_of_gates(given, ())
    assert news == [GateCondition("a.b/c", "True", message="x" * 1024)]
    known = [news[0]._asdict() | {"lastTransitionTime": "2026-11-01T00:00:00Z"}]
    assert news_of_gates(given, known) == []
    given["status"] = {}
    assert [each.status for each in news_of_gates(given, known)] == ["Unknown"]
    assert not has_gates(pod("web"))


def test_a_lease_belongs_to_its_node_and_keeps_its_metadata() -> None:
    made = nodes.lease("n1", "u", None, AT)
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert made["spec"]["renewTime"] == "2026-11-01T12:00:00.000000Z"
    made["metadata"]["resourceVersion"] = "9"
    assert nodes.lease("n1", "u", made, AT)["metadata"]["resourceVersion"] == "9"


@pytest.mark.parametrize("odd", [None, 5, "x", [1], {"conditions": "x"}, {"conditions": [1, None]}, {"conditions": {}}])
def test_a_value_of_another_type_counts_as_absent(odd: Any) -> None:
    document = {"metadata": odd, "status": odd}
    assert node_changes.written("n1", document, document) == []
    assert answered(document) == (b"", "")
    assert key_of(document) == ("", "")
    assert mirrored_uid(document) == ""


def test_a_container_that_is_ended_to_be_replaced_is_not_told_as_ended_where_the_server_takes_no_way_back() -> None:
    def container(state: dict[str, Any], number: int = 1) -> dict[str, Any]:
        return {"name": "app", "containerID": f"containerd://c{number}", "state": state, "ready": False}

    running, ended = {"running": {"startedAt": "t"}}, {"terminated": {"exitCode": 0}}
    pod = {"spec": {"restartPolicy": "Never"}, "status": {"containerStatuses": [container(running)]}}
    ours = {"phase": "Running", "containerStatuses": [container(ended)]}
    told = without_replaced_ends(pod, ours, {"c1"})
    assert told == {"phase": "Running", "containerStatuses": [container(running)]}
    assert without_replaced_ends(pod, ours, ()) == ours
    assert without_replaced_ends(pod, ours, {"c0"}) == ours
    started = {"containerStatuses": [container(running, 2)]}
    assert without_replaced_ends(pod, started, {"c1"}) == started
    assert without_replaced_ends({**pod, "spec": {"restartPolicy": "Always"}}, ours, {"c1"}) == ours
    unseen = without_replaced_ends({**pod, "status": {}}, ours, {"c1"})
    assert unseen["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
