"""A reference to an object: kind, namespace and name."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from syncpod.pod import ConfigMap, Pod, Secret
from syncpod.pod.origin import is_of_cluster

Kind = Literal["ConfigMap", "Secret"]
"""The kinds of objects that a node keeps."""

Origin = Literal["", "cluster", "token", "services", "claim", "inline", "bundle", "certificate"]
"""Where an object comes from. "": it was applied on the node, or by its fleet. `cluster`: it is an object of the node's
Kubernetes cluster. Every other origin is something that the cluster provides for one pod. A `token` and a `certificate`
are stored as Secrets. The variables of a namespace's Services (`services`), the place behind a claim (`claim`) or of a
volume that a storage driver makes for the pod alone (`inline`), and trust anchors (`bundle`) are stored as
ConfigMaps."""
ALL_SERVICES: Final = "all"
_MASTER_SERVICE: Final = "kubernetes"

KINDS: Final[tuple[Kind, ...]] = ("ConfigMap", "Secret")


_TITLES: Final[dict[Origin, str]] = {
    "token": "service account token",
    "services": "services",
    "claim": "persistent volume claim",
    "inline": "volume of a storage driver",
    "bundle": "cluster trust bundle",
    "certificate": "pod certificate",
}
ORIGINS: Final[tuple[Origin, ...]] = get_args(Origin)


@dataclass(frozen=True, order=True, slots=True)
class ObjectRef:
    """One ConfigMap or Secret, which may not exist; ``str`` gives the kubelet's words: ``configmap "x"``."""

    kind: Kind
    namespace: str
    name: str
    origin: Origin = ""

    @property
    def is_clusters(self) -> bool:
        """True if the object comes from the node's Kubernetes cluster."""
        return self.origin != ""

    def __str__(self) -> str:
        return _TITLES.get(self.origin) or f'{self.kind.lower()} "{self.name}"'


def ref_of(found: ConfigMap | Secret, origin: Origin = "") -> ObjectRef:
    """Return the reference to an object; one without a namespace is in ``default``."""
    return ObjectRef(found.kind, found.metadata.namespace or "default", found.metadata.name, origin)


def ref_for(pod: Pod, kind: Kind, name: str) -> ObjectRef:
    """Return the object to which a name in a pod refers: the cluster's for a pod of the cluster, else the node's."""
    return ObjectRef(kind, pod.metadata.namespace or "default", name, "cluster" if is_of_cluster(pod.metadata) else "")


def services_ref(pod: Pod) -> ObjectRef | None:
    """Return the object with the variables of Services for a pod's containers; None for a pod of the node's own."""
    if not is_of_cluster(pod.metadata):
        return None
    name = _MASTER_SERVICE if pod.spec.enable_service_links is False else ALL_SERVICES
    return ObjectRef("ConfigMap", pod.metadata.namespace or "default", name, "services")
