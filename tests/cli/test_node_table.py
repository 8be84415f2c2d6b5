"""Nodes as tables, documents and descriptions, as pure functions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from syncpod.api.listed import ListedPod
from syncpod.api.listed_node import ListedNode
from syncpod.api.views.node_columns import document, row
from syncpod.api.views.node_description import describe
from syncpod.cli.input.arguments import named_nodes, node_names, nodes_among
from syncpod.journal.records import EventRecord
from syncpod.messages.node import (
    FILE_SOURCE,
    SOURCE_ANNOTATION,
    DesiredPod,
    NodeAddress,
    NodeCondition,
    NodeInfo,
    NodeView,
    SourceView,
)
from syncpod.pod import ObjectMeta, Pod, PodStatus, pod_to_wire
from syncpod.pod.static import HASH_ANNOTATION

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
VIEW = NodeView(
    name="n1",
    since=NOW - timedelta(hours=3),
    sources={"file": SourceView(reported_at=NOW - timedelta(seconds=5), pods=1)},
    desired=(
        DesiredPod(name="web-n1", source="file", state="applied"),
        DesiredPod(name="bad", source="team", message="spec: no", retry_at=NOW + timedelta(seconds=20)),
    ),
    conditions=(
        NodeCondition(type="MemoryPressure", status="False"),
        NodeCondition(type="Ready", status="True", reason="KubeletReady"),
    ),
    capacity={"cpu": "2", "memory": "4096Ki"},
    addresses=(NodeAddress(type="InternalIP", address="10.0.0.1"), NodeAddress(type="Hostname", address="n1")),
    node_info=NodeInfo(kubelet_version="v1", container_runtime_version="containerd://1.6.20", os_image="Debian"),
    events=(EventRecord(type="Normal", reason="Starting", message="it begins", last=NOW, first=NOW),),
)


def fetched_node(*, lives: bool = True, unschedulable: bool = False) -> ListedNode:
    view = VIEW.model_copy(update={"unschedulable": unschedulable})
    return ListedNode("n1", view, current=lives, heard=NOW - timedelta(minutes=1), lives=lives)


@pytest.mark.parametrize(
    ("lives", "unschedulable", "status"),
    [
        (True, False, "Ready"),
        (True, True, "Ready,SchedulingDisabled"),
        (False, False, "NotReady"),
        (False, True, "NotReady,SchedulingDisabled"),
    ],
)
def test_a_node_is_ready_while_its_worker_lives_and_says_so(lives: bool, unschedulable: bool, status: str) -> None:
    one = fetched_node(lives=lives, unschedulable=unschedulable)
    assert row(one, NOW)[:5] == ("n1", status, "<none>", "3h", "v1")
    assert row(one, NOW)[5:] == ("10.0.0.1", "<none>", "Debian", "<unknown>", "containerd://1.6.20")


def test_conditions_of_a_node_without_a_worker_are_unknown() -> None:
    conditions = document(fetched_node(lives=False))["status"]["conditions"]
    assert [(each["type"], each["status"], each["reason"]) for each in conditions] == [
        ("MemoryPressure", "Unknown", "NodeStatusUnknown"),
        ("Ready", "Unknown", "NodeStatusUnknown"),
    ]


def test_a_node_is_printed_as_a_v1_node() -> None:
    node = document(fetched_node(unschedulable=True))
    assert (node["apiVersion"], node["kind"], node["metadata"]["name"]) == ("v1", "Node", "n1")
    assert node["spec"]["taints"] == [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"] == "containerd://1.6.20"
    assert node["metadata"]["creationTimestamp"] == "2026-11-21T09:00:00Z"
    assert document(fetched_node())["spec"] == {}


def test_the_node_description_shows_pods_and_why_others_wait() -> None:
    marks = {SOURCE_ANNOTATION: FILE_SOURCE, HASH_ANNOTATION: "u"}
    made = NOW - timedelta(hours=2)
    told = Pod(
        metadata=ObjectMeta(name="web-n1", namespace="default", uid="u", annotations=marks, creation_timestamp=made)
    )
    silent = Pod(metadata=ObjectMeta(name="a", creation_timestamp=NOW), status=PodStatus(phase="Running"))
    pods = [ListedPod(pod_to_wire(told)), ListedPod(pod_to_wire(silent), current=False)]
    text = "\n".join(describe(fetched_node(), pods, NOW))
    for said in ("Unschedulable:", "KubeletReady", "Sources:", "Waiting Pods:", "spec: no", "in 20s", "it begins"):
        assert said in text
    squeezed = [line.split() for line in text.splitlines()]
    assert ["default", "web-n1", "Pending", "file", "120m"] in squeezed  # the pod's age, not its run's
    assert ["a", "Running?", "api", "?"] in squeezed
    assert "the node does not answer" in "\n".join(describe(fetched_node(lives=False), (), NOW))


def test_a_pod_that_stands_in_the_way_of_a_listed_one_is_not_shown_as_the_lists() -> None:
    waits = DesiredPod(name="web-n1", uid="u", source=FILE_SOURCE, message="metadata.uid: is another pod's")
    view = VIEW.model_copy(update={"desired": (waits,)})
    applied = Pod(metadata=ObjectMeta(name="web-n1", namespace="default", uid="other", creation_timestamp=NOW))
    shown = describe(
        ListedNode("n1", view, current=True, heard=NOW, lives=True), [ListedPod(pod_to_wire(applied))], NOW
    )
    lines = [line.split() for line in shown]
    assert ["default", "web-n1", "Pending", "api", "0s"] in lines
    assert any(line[:3] == ["default/web-n1", "file", "pending"] for line in lines)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["nodes"], []),
        (["node", "a", "b", "a"], ["a", "b"]),
        (["no/a", "node/b"], ["a", "b"]),
        (["pod", "node"], None),
        (["web", "node/a"], None),
        ([], None),
    ],
)
def test_nodes_are_named_as_for_kubectl(words: list[str], names: list[str] | None) -> None:
    assert named_nodes(words) == names


@pytest.mark.parametrize(
    ("words", "nodes", "rest"),
    [
        (["node", "a", "b"], ["a", "b"], []),
        (["web", "node/a", "pod/api", "no/b"], ["a", "b"], ["web", "pod/api"]),
        (["pod", "web", "nodes/a"], ["a"], ["pod", "web"]),
        (["node"], [], ["node"]),
    ],
)
def test_nodes_are_named_among_pods(words: list[str], nodes: list[str], rest: list[str]) -> None:
    assert nodes_among(words) == (nodes, rest)


@pytest.mark.parametrize(
    ("words", "names"),
    [(["a", "node/b", "a"], ["a", "b"]), (["nodes", "a", "no/b"], ["a", "b"]), (["node/node"], ["node"])],
)
def test_node_commands_accept_a_plain_node_name(words: list[str], names: list[str]) -> None:
    assert node_names(words) == names
