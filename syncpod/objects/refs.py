"""A reference to an object: kind, namespace and name."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from syncpod.pod import ConfigMap, Pod, Secret
from syncpod.pod.origin import is_of_cluster

Kind = Literal["ConfigMap", "Secret"]
"""The kinds of objects that a node keeps."""

Origin = Literal["", "cluster", "token", "services", "claim", "inline", "bundle", "certificate"]
"""Where an object comes from: "" = it was applied on the node, or by its fleet; it is one of the node's Kubernetes
cluster; or the cluster has issued it for a pod: a token, a certificate (kept as Secrets), the variables of a
namespace's Services, the place behind a claim, that of a volume which a storage driver makes for the pod alone, trust
anchors (kept as ConfigMaps)."""
ALL_SERVICES: Final = "all"
_MASTER_SERVICE: Final = "kubernetes"

KINDS: Final[tuple[Kind, ...]] = ("ConfigMap", "Secret")


_SAID: Final[dict[Origin, str]] = {
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
        """Whether it comes from the node's Kubernetes cluster."""
        return self.origin != ""

    def __str__(self) -> str:
        return _SAID.get(self.origin) or f'{self.kind.lower()} "{self.name}"'


def ref_of(found: ConfigMap | Secret, origin: Origin = "") -> ObjectRef:
    """Return the reference to an object; one without a namespace is in ``default``."""
    return ObjectRef(found.kind, found.metadata.namespace or "default", found.metadata.name, origin)


def ref_for(pod: Pod, kind: Kind, name: str) -> ObjectRef:
    """Return what a pod means by a name: a pod of the cluster means the cluster's objects, any other the node's."""
    return ObjectRef(kind, pod.metadata.namespace or "default", name, "cluster" if is_of_cluster(pod.metadata) else "")


def services_ref(pod: Pod) -> ObjectRef | None:
    """Return what has the variables of Services that a pod's containers are given; None: it is no pod of a cluster."""
    if not is_of_cluster(pod.metadata):
        return None
    name = _MASTER_SERVICE if pod.spec.enable_service_links is False else ALL_SERVICES
    return ObjectRef("ConfigMap", pod.metadata.namespace or "default", name, "services")
