"""A reference to an object: kind, namespace and name."""

from dataclasses import dataclass
from typing import Final, Literal

from syncpod.pod import ConfigMap, Pod, Secret
from syncpod.pod.origin import is_of_cluster

Kind = Literal["ConfigMap", "Secret"]
"""The kinds of objects that a node keeps."""

KINDS: Final[tuple[Kind, ...]] = ("ConfigMap", "Secret")


@dataclass(frozen=True, order=True, slots=True)
class ObjectRef:
    """One ConfigMap or Secret, which may not exist; ``str`` gives the kubelet's words: ``configmap "x"``."""

    kind: Kind
    namespace: str
    name: str
    is_clusters: bool = False
    """It is an object of the node's Kubernetes cluster; else one that was applied on the node, or by its fleet."""

    def __str__(self) -> str:
        return f'{self.kind.lower()} "{self.name}"'


def ref_of(found: ConfigMap | Secret, *, is_clusters: bool = False) -> ObjectRef:
    """Return the reference to an object; one without a namespace is in ``default``."""
    return ObjectRef(found.kind, found.metadata.namespace or "default", found.metadata.name, is_clusters)


def ref_for(pod: Pod, kind: Kind, name: str) -> ObjectRef:
    """Return what a pod means by a name: a pod of the cluster means the cluster's objects, any other the node's."""
    return ObjectRef(kind, pod.metadata.namespace or "default", name, is_of_cluster(pod.metadata))
