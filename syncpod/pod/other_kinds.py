"""Kinds of objects that are not applied here, and for each what to do instead."""

from collections.abc import Mapping
from typing import Any, Final

_TEMPLATE: Final = "apply its spec.template as a Pod, with a metadata.name"
_STORAGE: Final = "in the pod, use a hostPath volume in place of the claim, or emptyDir for data that goes with the pod"
_ACCESS: Final = "there is no API server to give access to: leave it out"
_REACHED: Final = "nothing routes here: reach the pod at its own address, by a hostPort, or with `syncpod port-forward`"

_WAYS_ON: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"), _TEMPLATE
    ),
    "CronJob": "apply its spec.jobTemplate.spec.template as a Pod, with a metadata.name, from a timer of your own",
    "PodTemplate": "apply its template as a Pod, with a metadata.name",
    **dict.fromkeys(("PersistentVolumeClaim", "PersistentVolume", "StorageClass"), _STORAGE),
    **dict.fromkeys(("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"), _ACCESS),
    **dict.fromkeys(("Service", "Endpoints", "EndpointSlice", "Ingress", "Gateway", "HTTPRoute"), _REACHED),
    "Namespace": "a namespace needs no object: pods name theirs, and -n names it for those that do not",
    "Node": "a node is there as soon as its worker runs: `syncpod worker --node NAME`",
    "Kustomization": "build it first: kubectl kustomize DIR | syncpod apply -f -",
}


def way_on(kind: str) -> str:
    """Return what to do with an object of a kind that is not applied here; "" = nothing is known of the kind."""
    return _WAYS_ON.get(kind, "")


def is_compose(document: Mapping[str, Any]) -> bool:
    """Return whether a document without a kind is a Compose file."""
    return isinstance(document.get("services"), Mapping) and "apiVersion" not in document


COMPOSE: Final = (
    "is a Compose file: write a Pod for its services, each a container with its image, args (command), env "
    "(environment) and volumeMounts"
)
