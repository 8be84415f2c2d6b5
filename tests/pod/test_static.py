"""Static pods: names and UIDs from the path and content of a manifest.

Holds: The UID of a static pod depends on its file's content and place, and on its node.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.pod import (
    Pod,
    Toleration,
    admit,
    check_without_effect,
    content_uid,
    pod_to_wire,
    static_pod,
    with_defaults,
)
from syncpod.pod.parse import parse_pod

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
LABELS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)  # a pod with a NUL is refused
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


def manifest(name: str = "web", **metadata: Any) -> Pod:
    return parse_pod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **metadata},
            "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
        }
    )


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("", "6c62272e07bb014262b821756295c58d"),
        ("a", "d228cb696f1a8caf78912b704e4a8964"),
        ("foobar", "343e1662793c64bf6f0d3597ba446f18"),
    ],
)
def test_the_hash_is_fnv_1a_of_128_bits(text: str, digest: str) -> None:
    """The digests are those of the function's authors (draft-eastlake-fnv)."""
    assert content_uid(text) == digest


def test_a_manifest_becomes_a_static_pod_as_the_kubelet_makes_it() -> None:
    """Row 2: UID, name, namespace, annotation, toleration, node."""
    pod = static_pod(manifest(annotations={"a": "b"}), node="Node-1", path="/etc/pods/web.yaml")
    assert (pod.metadata.name, pod.metadata.namespace, pod.spec.node_name) == ("web-node-1", "default", "Node-1")
    assert pod.metadata.annotations == {"a": "b", "kubernetes.io/config.hash": pod.metadata.uid}
    assert [(each.operator, each.effect, each.key) for each in pod.spec.tolerations] == [("Exists", "NoExecute", "")]
    assert static_pod(manifest(uid="mine", namespace="x"), node="n", path="/p").metadata.uid == "mine"


def test_fields_added_to_a_static_pod_cause_no_warning() -> None:
    pod = static_pod(manifest(), node="n", path="/p")
    assert check_without_effect(with_defaults(pod)) == ()
    tolerations = (*pod.spec.tolerations, Toleration(key="a", operator="Exists"))
    said = pod.model_copy(update={"spec": pod.spec.model_copy(update={"tolerations": tolerations})})
    assert [each.path for each in check_without_effect(with_defaults(said))] == ["spec.tolerations"]


@given(name=NAMES, node=NAMES, path=TEXTS, label=LABELS)
def test_the_uid_depends_only_on_content_path_and_node(name: str, node: str, path: str, label: str) -> None:
    def uid(pod: Pod, node: str = node, path: str = path) -> str:
        return static_pod(pod, node=node, path=path).metadata.uid

    pod = manifest(name)
    assert uid(pod) == uid(parse_pod(pod_to_wire(pod)))
    others = {
        uid(manifest(f"{name}x")),
        uid(manifest(name, labels={"a": label})),
        uid(pod, node=f"{node}x"),
        uid(pod, path=f"{path}x"),
    }
    assert len(others | {uid(pod)}) == 5
    assert all(len(each) == 32 and int(each, 16) >= 0 for each in others)


@given(name=NAMES, node=NAMES)
def test_admission_of_a_static_pod_is_idempotent(name: str, node: str) -> None:
    admitted = admit(static_pod(manifest(name), node=node, path="/p")).pod
    assert (admitted.metadata.name, admitted.spec.node_name) == (f"{name}-{node}", node)
    assert admit(admitted).pod == admitted
