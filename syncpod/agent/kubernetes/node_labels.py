"""Keeps the labels that the cluster has given the Node: pods are placed by them, and admitted by them.

Mirrors pkg/kubelet/lifecycle/predicate.go, v1.36, generalFilter: a pod that asks for labels may be here before the news
of them, so they are asked for. Difference: the kubelet asks only once the labels that it knows do not fit.
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
        """Write them into `context`. `newest` returns the Node as the cluster has told it last."""
        self._client, self._context, self._newest = client, context, newest

    async def learn_for(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Learn the labels as they are now, if one of these new pods asks for labels.

        While the API server is away, those that it has told last count.
        """
        if not any(_asks_for_labels(pod) for pod in pods):
            return
        node = self._newest()
        try:
            node = await self._client.ask("GET", f"/api/v1/nodes/{self._context.name}")
        except (ClusterError, Unreachable) as error:
            log.warning("the labels of node %s cannot be asked for: %s", self._context.name, error)
        labels = mapping(mapping(mapping(node).get("metadata")).get("labels"))
        self._context.labels_of_cluster.clear()
        self._context.labels_of_cluster.update({str(name): str(value) for name, value in labels.items()})


def _asks_for_labels(pod: Mapping[str, Any]) -> bool:
    spec = mapping(pod.get("spec"))
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    return bool(spec.get("nodeSelector") or affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
