"""A pod's page in the Temporal UI has its node, images and commands, and a server accepts its size."""

from __future__ import annotations

import json

import pytest

from syncpod.messages.pod_card import POD_MEMO, pod_card, sender_in
from syncpod.pod import Pod
from syncpod.temporal.workflow_starts import node_start_arguments, start_arguments

SECRET = "not for everybody"


def pod(*, name: str = "web", namespace: str = "default", containers: int = 2) -> Pod:
    env = [{"name": "PASSWORD", "value": SECRET}]
    each = [{"name": f"c{number}", "image": f"busybox:{number}", "env": env} for number in range(containers)]
    return Pod.model_validate({"metadata": {"name": name, "namespace": namespace}, "spec": {"containers": each}})


def test_a_pods_workflow_says_who_sent_what_where_and_what_to_type() -> None:
    begun = start_arguments(pod(), "edge", has_attributes=False, sender="17@laptop")
    assert begun["static_summary"] == "pod default/web on edge"
    assert begun["memo"] == {
        POD_MEMO: {"node": "edge", "images": {"c0": "busybox:0", "c1": "busybox:1"}, "sender": "17@laptop"}
    }
    lines = begun["static_details"].splitlines()
    assert lines[:4] == ["- node: edge", "- sent by 17@laptop", "- c0: busybox:0", "- c1: busybox:1"]
    assert "- `syncpod describe pod web`" in lines
    assert "- `temporal workflow query --workflow-id pod/default/web --type pod`" in lines
    assert SECRET not in json.dumps([begun["static_details"], begun["memo"]])


@pytest.mark.parametrize(
    ("memo", "sender"),
    [
        ({"node": "edge", "sender": "17@laptop"}, "17@laptop"),
        ({"node": "edge"}, ""),
        (None, ""),
        ("17@laptop", ""),
        ({"sender": 17}, ""),
        ({"sender": "17\n# laptop"}, "17\\n# laptop"),
    ],
)
def test_the_sender_is_read_from_a_memo_that_any_client_may_have_written(memo: object, sender: str) -> None:
    assert sender_in(memo) == sender


def test_the_commands_name_another_namespace() -> None:
    assert "- `syncpod explain web -n team`" in pod_card(pod(namespace="team"), "edge").splitlines()


def test_the_largest_pods_page_is_not_too_large_for_a_server() -> None:
    largest = pod(name="n" * 253, namespace="s" * 63, containers=500)
    spec = largest.spec.model_copy(
        update={"containers": [each.model_copy(update={"image": "i" * 4_000}) for each in largest.spec.containers]}
    )
    begun = start_arguments(
        largest.model_copy(update={"spec": spec}), "x" * 253, has_attributes=False, sender="w" * 1_000
    )
    assert len(json.dumps(begun["static_summary"])) <= 400
    assert len(json.dumps(begun["static_details"], ensure_ascii=False).encode()) <= 20_000
    assert "- 480 more containers" in begun["static_details"]
    assert len(json.dumps(begun["memo"])) <= 10_000


@pytest.mark.parametrize("has_attributes", [True, False])
def test_a_nodes_workflow_is_found_by_its_name_and_says_what_to_type(has_attributes: bool) -> None:
    begun = node_start_arguments("edge", has_attributes=has_attributes)
    pairs = [(pair.key.name, pair.value) for pair in begun["search_attributes"]]
    assert pairs == ([("NodeName", "edge")] if has_attributes else []), "a server refuses an unknown attribute"
    assert "- `syncpod describe node edge`" in begun["static_details"].splitlines()
