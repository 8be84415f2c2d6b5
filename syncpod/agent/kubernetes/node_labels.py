"""Reads the Node's labels from the cluster: the scheduler places pods by them, and the node admits pods by them.

Mirrors pkg/kubelet/lifecycle/predicate.go, v1.36, generalFilter: a pod may arrive before the labels that it selects, so
the node gets them from the API server. Difference: the kubelet gets them only if its cached labels do not match.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from syncpod.kubernetes.client import ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.json_documents import mapping
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)


class ClusterLabels:
    """The labels of one Node. All methods belong to one event loop."""

    def __init__(self, client: ApiClient, context: NodeContext, newest: Callable[[], Mapping[str, Any] | None]) -> None:
        """Write the labels into `context`. `newest` returns the last received Node; None if there is none."""
        self._client, self._context, self._newest = client, context, newest

    async def learn_for(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Get the current labels if one of these new pods selects by labels.

        While the API server is away, the last received labels are used.
        """
        if not any(_needs_labels(pod) for pod in pods):
            return
        node = self._newest()
        try:
            node = await self._client.ask("GET", f"/api/v1/nodes/{self._context.name}")
        except (ClusterError, Unreachable) as error:
            log.warning("the labels of node %s cannot be read from the cluster: %s", self._context.name, error)
        labels = mapping(mapping(mapping(node).get("metadata")).get("labels"))
        self._context.labels_of_cluster.clear()
        self._context.labels_of_cluster.update({str(name): str(value) for name, value in labels.items()})


def _needs_labels(pod: Mapping[str, Any]) -> bool:
    spec = mapping(pod.get("spec"))
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    return bool(spec.get("nodeSelector") or affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
