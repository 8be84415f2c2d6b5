"""Labels and annotations of sandboxes and containers: the kubelet's, byte for byte, and ours.

They serve crictl and log agents, allow a container to be killed without its spec, and distinguish our containers from
all others.
"""

from typing import Any

from syncpod.pod import Container, ContainerPort, Pod, container_hash, pod_to_wire
from syncpod.pod.go_text import go_json
from syncpod.translation import names
from syncpod.translation.context import NodeContext


def sandbox_labels(pod: Pod, node: NodeContext) -> dict[str, str]:
    """Return the pod's own labels, overridden by the kubelet's, and the label with the sandbox's owner.

    labels.go, v1.36, newPodLabels; the last label is ours.
    """
    return {**pod.metadata.labels, **_identity(pod), names.NODE_LABEL: node.name}


def sandbox_annotations(pod: Pod, node: NodeContext, incarnation: str) -> dict[str, str]:
    """Return the pod's own annotations, the incarnation's id and the cluster that has its workflow.

    labels.go, v1.36, newPodAnnotations; the last two are ours.
    """
    return {
        **pod.metadata.annotations,
        names.INCARNATION_ANNOTATION: incarnation,
        names.CLUSTER_ANNOTATION: node.cluster,
    }


def container_labels(pod: Pod, container: Container, node: NodeContext) -> dict[str, str]:
    """Return a container's labels: pod, container and owner, without the pod's own labels (newContainerLabels)."""
    return {**_identity(pod), names.CONTAINER_NAME_LABEL: container.name, names.NODE_LABEL: node.name}


def container_annotations(pod: Pod, container: Container, restart_count: int, incarnation: str) -> dict[str, str]:
    """Return the annotations of a container, with which it can be compared with a spec, and killed without one.

    labels.go, v1.36, newContainerAnnotations; the incarnation is ours.
    """
    annotations = {
        names.CONTAINER_HASH_ANNOTATION: container_hash(container.name, container.image),
        names.CONTAINER_RESTART_COUNT_ANNOTATION: str(restart_count),
        names.CONTAINER_TERMINATION_MESSAGE_PATH_ANNOTATION: container.termination_message_path,
        names.CONTAINER_TERMINATION_MESSAGE_POLICY_ANNOTATION: container.termination_message_policy or "",
        names.INCARNATION_ANNOTATION: incarnation,
    }
    if pod.metadata.deletion_grace_period_seconds is not None:
        annotations[names.POD_DELETION_GRACE_PERIOD_ANNOTATION] = str(pod.metadata.deletion_grace_period_seconds)
    if pod.spec.termination_grace_period_seconds is not None:
        annotations[names.POD_TERMINATION_GRACE_PERIOD_ANNOTATION] = str(pod.spec.termination_grace_period_seconds)
    if container.lifecycle is not None and container.lifecycle.pre_stop is not None:
        annotations[names.CONTAINER_PRE_STOP_HANDLER_ANNOTATION] = go_json(pod_to_wire(container.lifecycle.pre_stop))
    if container.ports:
        annotations[names.CONTAINER_PORTS_ANNOTATION] = go_json([_port(port) for port in container.ports])
    return annotations


def _identity(pod: Pod) -> dict[str, str]:
    return {
        names.POD_NAME_LABEL: pod.metadata.name,
        names.POD_NAMESPACE_LABEL: pod.metadata.namespace,
        names.POD_UID_LABEL: pod.metadata.uid,
    }


def _port(port: ContainerPort) -> dict[str, Any]:
    """Return a port as core/v1 marshals it: empty fields except containerPort are left out."""
    wire: dict[str, Any] = {
        "name": port.name,
        "hostPort": port.host_port,
        "containerPort": port.container_port,
        "protocol": port.protocol,
        "hostIP": port.host_ip,
    }
    return {key: value for key, value in wire.items() if value or key == "containerPort"}
