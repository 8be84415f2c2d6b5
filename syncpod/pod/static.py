"""Static pods: the name and UID that a pod gets from its manifest's path, without an API server.

Mirrors pkg/kubelet/config/common.go, v1.36, applyDefaults, generatePodName. Differences: the UID is a hash of the
manifest's pod as canonical JSON without defaults, so a later version with other defaults keeps the UIDs of static pods.
The kubelet hashes Go's print of the pod with its defaults. And a static pod may refer to ConfigMaps and Secrets, since
the node has them.
"""

from syncpod.pod.kinds import Pod
from syncpod.pod.scheduling import Toleration
from syncpod.pod.wire import canonical_json

HASH_ANNOTATION = "kubernetes.io/config.hash"

_FNV_OFFSET = 0x6C62272E07BB014262B821756295C58D
_FNV_PRIME = 0x0000000001000000000000000000013B
_MASK = (1 << 128) - 1
FROM_NODE = Toleration(operator="Exists", effect="NoExecute")
"""The toleration that every static pod gets, so that it stays on its node."""


def static_pod(pod: Pod, *, node: str, path: str) -> Pod:
    """Return a static pod of the manifest `path` on `node`: with UID, name, namespace, node and annotation set.

    `pod` is as parsed, without defaults. A UID in the manifest is kept. The node's workflow adds the annotations for
    the config source and time.
    """
    meta = pod.metadata
    uid = meta.uid or static_uid(pod, f"host:{node}", f"file:{path}")
    metadata = meta.model_copy(
        update={
            "uid": uid,
            "name": f"{meta.name}-{node.lower()}" if meta.name else "",
            "namespace": meta.namespace or "default",
            "annotations": {**meta.annotations, HASH_ANNOTATION: uid},
        }
    )
    tolerations = pod.spec.tolerations
    if FROM_NODE not in tolerations:
        tolerations = (*tolerations, FROM_NODE)
    spec = pod.spec.model_copy(update={"node_name": node, "tolerations": tolerations})
    return pod.model_copy(update={"metadata": metadata, "spec": spec})


def static_uid(pod: Pod, *origin: str) -> str:
    """Return the UID for a manifest without one: 32 hex digits, from its content and its origin."""
    return content_uid(canonical_json(pod), *origin)


def content_uid(text: str, *origin: str) -> str:
    """Return the UID of a pod whose canonical JSON is `text`: the 128-bit FNV-1a hash of `text` and each `origin`."""
    return format(_fnv1a_128("".join((text, *origin)).encode("utf-8", "surrogatepass")), "032x")


def _fnv1a_128(data: bytes) -> int:
    total = _FNV_OFFSET
    for byte in data:
        total = (total ^ byte) * _FNV_PRIME & _MASK
    return total
