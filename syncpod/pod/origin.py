"""Who made a pod for its node: the annotations that say so, and the one question that models depend on."""

from typing import Final

from syncpod.pod.meta import ObjectMeta
from syncpod.pod.static import HASH_ANNOTATION

SOURCE_ANNOTATION: Final = "kubernetes.io/config.source"
"""The kubelet's annotation of a pod with the list that it comes from (pkg/kubelet/types/pod_update.go, v1.36)."""
KUBERNETES_SOURCE: Final = "kubernetes"
"""The source that the API server of the Kubernetes cluster is. (The kubelet's name for it is `api`, which is taken.)"""
_OF_API: Final = "api"


def is_of_cluster(meta: ObjectMeta) -> bool:
    """Say whether a Kubernetes cluster has bound the pod to its node: it is given the cluster's objects alone."""
    made_for = meta.annotations.get(HASH_ANNOTATION, meta.uid)
    return meta.annotations.get(SOURCE_ANNOTATION) == KUBERNETES_SOURCE and made_for == meta.uid


def annotations_under_kubelet(meta: ObjectMeta) -> dict[str, str]:
    """Return a pod's annotations as it has them under a kubelet: those by which its node knows its source differ."""
    if not is_of_cluster(meta):
        return meta.annotations
    return {**{name: text for name, text in meta.annotations.items() if name != HASH_ANNOTATION}, **of_api()}


def of_api() -> dict[str, str]:
    """Return the annotation that a kubelet gives a pod that comes from an API server."""
    return {SOURCE_ANNOTATION: _OF_API}
