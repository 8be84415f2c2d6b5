"""The mirror of a static pod: the Pod at the API server that represents a pod of the node's own. Values in, values out.

Mirrors pkg/kubelet/pod/mirror_client.go, v1.36, CreateMirrorPod. A mirror has the name of its static pod, which ends
with the node's name. The API server gives the mirror a UID of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from syncpod.kubernetes.json_documents import mapping

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""A mirror's annotation; its value is the static pod's UID. An API server refuses to change it."""
_KEPT_METADATA: Final = ("name", "namespace", "labels")


def mirror_of(pod: Mapping[str, Any], uid: str, node: str, node_uid: str) -> dict[str, Any]:
    """Return the mirror of a static pod with this UID, for the Node that owns it."""
    metadata = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{name: metadata[name] for name in _KEPT_METADATA if metadata.get(name)},
            "annotations": {**(metadata.get("annotations") or {}), MIRROR_ANNOTATION: uid},
            "ownerReferences": [owner],
        },
        "spec": pod["spec"],
    }


def mirrored_uid(pod: Mapping[str, Any]) -> str:
    """Return the UID of the static pod that a Pod is the mirror of; "" if it is no mirror."""
    return str(mapping(mapping(pod.get("metadata")).get("annotations")).get(MIRROR_ANNOTATION) or "")


def is_deleted(pod: Mapping[str, Any]) -> bool:
    """Return whether the deletion of a Pod has been requested."""
    metadata = pod.get("metadata")
    return isinstance(metadata, Mapping) and bool(metadata.get("deletionTimestamp"))
