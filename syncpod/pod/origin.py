"""The sources of pods: which list a pod was made for, and what its node may do with it for that reason.

A pod's annotations name its source. A pod that was applied by itself has none, or :data:`API_SOURCE`.
"""

from typing import Final

from syncpod.pod.meta import ObjectMeta
from syncpod.pod.static import HASH_ANNOTATION

SOURCE_ANNOTATION: Final = "kubernetes.io/config.source"
"""The kubelet's annotation of a pod with the name of its source (pkg/kubelet/types/pod_update.go, v1.36)."""
API_SOURCE: Final = "api"
"""The source of single pods (``apply`` and ``delete``); no list governs it."""
FILE_SOURCE: Final = "file"
"""The source that is a directory of manifests; the kubelet has the same name for it."""
FLEET_SOURCE: Final = "fleet"
"""The source that is the node's fleet, in ``sync_pods`` and in :data:`SOURCE_ANNOTATION`."""
KUBERNETES_SOURCE: Final = "kubernetes"
"""The source that is the API server of a Kubernetes cluster. The kubelet calls it `api`, which is taken here."""
SEEN_ANNOTATION: Final = "kubernetes.io/config.seen"
"""The kubelet's annotation of a pod that no API server knows: the time of its first appearance (types/pod_update.go,
v1.36).
"""
_MARKS: Final = (SOURCE_ANNOTATION, SEEN_ANNOTATION, HASH_ANNOTATION)
"""The annotations that only a source sets."""
_OF_API: Final = "api"


def list_of(meta: ObjectMeta) -> str:
    """Return the source whose list the pod was made for, such as `file`; "" if the pod was applied by itself.

    A copy of a listed pod, applied by a person, counts as applied by itself, since its annotation has another pod's
    UID.
    """
    source = meta.annotations.get(SOURCE_ANNOTATION, API_SOURCE)
    made_for = meta.annotations.get(HASH_ANNOTATION, "" if source == FILE_SOURCE else meta.uid)
    return "" if source in ("", API_SOURCE) or made_for != meta.uid else source


def is_order_of_source(meta: ObjectMeta) -> bool:
    """Say whether a document is an order of a source: it has the source's marks, made for the UID in the document.

    A copy that a person applies has no UID: admission drops the UID of a pod that has run.
    """
    return meta.uid != "" and meta.annotations.get(HASH_ANNOTATION) == meta.uid and list_of(meta) != ""


def updated_annotations(old: ObjectMeta, new: ObjectMeta) -> dict[str, str]:
    """Return the annotations of a pod with metadata `old` after an update by `new`.

    The marks of the pod's source change only by an order of a source: no other document adds or removes one.
    """
    if is_order_of_source(new):
        return new.annotations
    kept = {name: text for name, text in old.annotations.items() if name in _MARKS}
    return {**{name: text for name, text in new.annotations.items() if name not in _MARKS}, **kept}


def is_of_cluster(meta: ObjectMeta) -> bool:
    """Say whether a Kubernetes cluster has bound the pod to its node: the pod then gets only the cluster's objects."""
    return list_of(meta) == KUBERNETES_SOURCE


def is_readmitted(meta: ObjectMeta) -> bool:
    """Say whether the node is asked again to admit a pod that it has rejected, as long as the pod's list has the pod.

    That is so for a pod of the node's manifests or of a list sent by `sync_pods`: nothing else would bring the pod
    back. (A kubelet asks again only when it is restarted.) Any other pod stays Failed. The person who applied a single
    pod sees that, and may want something else; the owner of a pod of a fleet or of a cluster replaces the pod, perhaps
    on another node.
    """
    return list_of(meta) not in ("", FLEET_SOURCE, KUBERNETES_SOURCE)


def annotations_under_kubelet(meta: ObjectMeta) -> dict[str, str]:
    """Return the annotations that a pod would have under a kubelet: a cluster's pod has another source there."""
    if not is_of_cluster(meta):
        return meta.annotations
    return {**{name: text for name, text in meta.annotations.items() if name != HASH_ANNOTATION}, **of_api()}


def of_api() -> dict[str, str]:
    """Return the annotation that a kubelet gives a pod that comes from an API server."""
    return {SOURCE_ANNOTATION: _OF_API}
