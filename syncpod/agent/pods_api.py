"""Serves the kubelet's Pods API: whole Pods for programs on the machine (the kubelet's feature gate PodsAPI)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from syncpod.agent import metrics
from syncpod.agent.agent import Agent
from syncpod.kernel.os_errors import where_and_why
from syncpod.kubernetes.event_correlation import TokenBucket
from syncpod.messages.node import NodeStatus
from syncpod.pod.origin import of_api
from syncpod.pods_api.server import PodNews, ServedNode, serving
from syncpod.temporal.workflow_watch import Published

log = logging.getLogger(__name__)

SOCKET: Final = Path("pods-api", "pods-api.sock")
"""The socket's path below the node's state directory; a kubelet has it below its root directory."""
_BURST: Final = 10
_REFILL_SECONDS: Final = 1 / 100
"""The kubelet's DefaultBurstTokens, and its DefaultQPS as the time between two requests."""


def add_pods_api(agent: Agent, state_dir: Path, status: Callable[[], Awaitable[NodeStatus]]) -> None:
    """Serve the API below `state_dir` for as long as the agent runs; `status` returns the node's own status."""
    agent.add_background_task("Pods API", _PodsApi(agent, state_dir / SOCKET, status).run)


class _PodsApi:
    def __init__(self, agent: Agent, socket: Path, status: Callable[[], Awaitable[NodeStatus]]) -> None:
        self._agent, self._socket, self._status = agent, socket, status
        self._objects: dict[str, Mapping[str, Any]] = {}
        """By UID: each pod's last object from the Kubernetes cluster, kept until the pod is gone."""

    async def run(self) -> None:
        """Serve until cancelled. If the socket cannot be served, log why, and only wait."""
        news, bucket = PodNews(), TokenBucket(_BURST, _REFILL_SECONDS)

        def changed(state: Published) -> None:
            found = self._as_in_cluster(state)
            news.changed(state.metadata.uid, lambda: _document(state, found))

        def gone(state: Published) -> None:
            self._objects.pop(state.metadata.uid, None)
            news.gone(state.metadata.uid, state.metadata.namespace, state.metadata.name)

        node = ServedNode(
            pods=lambda: [_document(each, self._as_in_cluster(each)) for each in self._agent.task_watch.pods()],
            is_ready=self._is_ready,
            takes=lambda: bucket.take(time.monotonic()),
            dropped=lambda: metrics.dropped_pod_watches.add(1),
        )
        try:
            async with serving(self._socket, node, news):
                with self._agent.published_pods.watched(changed, gone):
                    await news.run()
        except OSError as error:
            log.warning("the Pods API is not served: %s", where_and_why(error))
            await asyncio.Event().wait()

    def _as_in_cluster(self, state: Published) -> Mapping[str, Any] | None:
        """Return the cluster's newest object of a pod, even after its deletion there; None if there never was one."""
        meta = state.metadata
        found = self._agent.cluster.pod(meta) or self._objects.get(meta.uid)
        if found is not None:
            self._objects[meta.uid] = found
        return found

    async def _is_ready(self) -> bool:
        return (await self._status()).sources_ready


def _document(state: Published, found: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a Pod with its workflow's status, and the rest from the cluster's object `found`, if there is one.

    The object is newer: labels that change while a pod ends are not sent to its workflow.
    """
    own = state.pod()
    if found is None:
        return own
    annotations = {**(found["metadata"].get("annotations") or {}), **of_api()}
    return {**found, "metadata": {**found["metadata"], "annotations": annotations}, "status": own["status"]}
