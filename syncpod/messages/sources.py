"""The list of its node for which a pod was made, and the consequence if the node does not admit it."""

from __future__ import annotations

from syncpod.messages.fleet import FLEET_SOURCE
from syncpod.messages.node import API_SOURCE, FILE_SOURCE, KUBERNETES_SOURCE, SOURCE_ANNOTATION
from syncpod.pod import ObjectMeta
from syncpod.pod.static import HASH_ANNOTATION


def list_of(meta: ObjectMeta) -> str:
    """Return the list (`file`, `fleet`) that a pod was made for; "" if it was applied by itself.

    A copy of such a pod that somebody has applied does not count: its UID differs from the one in its annotation.
    """
    source = meta.annotations.get(SOURCE_ANNOTATION, API_SOURCE)
    says = meta.annotations.get(HASH_ANNOTATION, "" if source == FILE_SOURCE else meta.uid)
    return "" if source in ("", API_SOURCE) or says != meta.uid else source


def is_asked_again(meta: ObjectMeta) -> bool:
    """Say whether the node is asked again to admit a pod that it has rejected, for as long as the pod's list has it.

    A list of the node names the pods that are to run there, and nobody else would bring back one that was rejected. (A
    kubelet asks again only when it is restarted.) A pod that was applied by itself stays Failed, as in a cluster: who
    has applied it sees that, and may want something else by then. So does a pod of a fleet, whose workload replaces it,
    perhaps on another node, and so does a pod of a cluster.
    """
    return list_of(meta) not in ("", FLEET_SOURCE, KUBERNETES_SOURCE)
