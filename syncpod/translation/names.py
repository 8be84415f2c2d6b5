"""Names of the labels and annotations that sandboxes and containers carry in the runtime.

The first group is the kubelet's (kuberuntime/labels.go, v1.36), so that crictl and log agents can read our pods. The
second is ours. Lists can be filtered by labels, but not by annotations; the runtime keeps both unchanged.
"""

from __future__ import annotations

from typing import Final

POD_NAME_LABEL: Final = "io.kubernetes.pod.name"
POD_NAMESPACE_LABEL: Final = "io.kubernetes.pod.namespace"
POD_UID_LABEL: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME_LABEL: Final = "io.kubernetes.container.name"

CONTAINER_HASH_ANNOTATION: Final = "io.kubernetes.container.hash"
"""Hash of the container's name and image: lowercase hex without 0x."""
CONTAINER_RESTART_COUNT_ANNOTATION: Final = "io.kubernetes.container.restartCount"
CONTAINER_TERMINATION_MESSAGE_PATH_ANNOTATION: Final = "io.kubernetes.container.terminationMessagePath"
CONTAINER_TERMINATION_MESSAGE_POLICY_ANNOTATION: Final = "io.kubernetes.container.terminationMessagePolicy"
CONTAINER_PRE_STOP_HANDLER_ANNOTATION: Final = "io.kubernetes.container.preStopHandler"
"""The preStop hook as JSON, so that a container can be stopped properly without its spec."""
CONTAINER_PORTS_ANNOTATION: Final = "io.kubernetes.container.ports"
"""The declared ports as JSON."""
POD_DELETION_GRACE_PERIOD_ANNOTATION: Final = "io.kubernetes.pod.deletionGracePeriod"
"""The grace period of the pod's deletion, in seconds."""
POD_TERMINATION_GRACE_PERIOD_ANNOTATION: Final = "io.kubernetes.pod.terminationGracePeriod"
"""The pod's terminationGracePeriodSeconds."""

NODE_LABEL: Final = "syncpod.dev/node"
"""Name of the node whose agent owns the sandbox or container. Sandboxes and containers without this label are never
touched."""
INCARNATION_ANNOTATION: Final = "syncpod.dev/incarnation"
"""Id of this life of the pod. An earlier pod with the same static UID has another id."""
CLUSTER_ANNOTATION: Final = "syncpod.dev/cluster"
"""Identity of the Temporal cluster and namespace that the pod belongs to."""
