"""Static pods: the name and the UID that a pod gets by where its manifest lies, with no API server to give it one.

Mirrors pkg/kubelet/config/common.go, v1.36, applyDefaults, generatePodName. Differences: what is hashed is the pod as
its manifest says it, as canonical JSON, where the kubelet hashes Go's print of the pod with all its defaults; so here a
later version, with other defaults, does not take every static pod for another one. And a static pod may refer to
ConfigMaps and Secrets, which lie on the node.
"""

from syncpod.pod.hashing import canonical_json
from syncpod.pod.kinds import Pod
from syncpod.pod.scheduling import Toleration

HASH_ANNOTATION = "kubernetes.io/config.hash"

_FNV_OFFSET = 0x6C62272E07BB014262B821756295C58D
_FNV_PRIME = 0x0000000001000000000000000000013B
_MASK = (1 << 128) - 1
FROM_NODE = Toleration(operator="Exists", effect="NoExecute")
"""What a static pod tolerates without having said so: it stays on its node."""


def static_pod(pod: Pod, *, node: str, path: str) -> Pod:
    """Return a pod as the manifest `path` of `node` makes it: with its UID, name, namespace, node and annotation.

    `pod` is as it was parsed, before defaults. A UID of its own is kept. Which source it is from, and since when, is
    said where that is known: by the node's workflow.
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
    """Return the UID of a pod that its manifest gives none: 32 hex digits, of what it says and where it is from."""
    return content_uid(canonical_json(pod), *origin)


def content_uid(text: str, *origin: str) -> str:
    """Return the UID of a pod whose canonical JSON is `text`: FNV-1a, 128 bits, over it and then over each `origin`."""
    return format(_fnv1a_128("".join((text, *origin)).encode("utf-8", "surrogatepass")), "032x")


def _fnv1a_128(data: bytes) -> int:
    total = _FNV_OFFSET
    for byte in data:
        total = (total ^ byte) * _FNV_PRIME & _MASK
    return total
