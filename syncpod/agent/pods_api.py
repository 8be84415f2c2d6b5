"""The kubelet's Pods API of a node: its pods, whole, for programs on the machine (the kubelet's gate PodsAPI)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from syncpod.agent import metrics
from syncpod.agent.agent import Agent
from syncpod.kernel.os_errors import where_and_why
from syncpod.kubernetes.event_correlation import TokenBucket
from syncpod.messages.node import NodeStatus
from syncpod.pods_api.server import Node, PodNews, serving
from syncpod.temporal.workflow_watch import Published

log = logging.getLogger(__name__)

SOCKET: Final = Path("pods-api", "pods-api.sock")
"""Below the node's state directory, as below a kubelet's root directory."""
_BURST: Final = 10
_REFILL_SECONDS: Final = 1 / 100
"""The kubelet's DefaultBurstTokens, and its DefaultQPS as the time between two requests."""


def add_pods_api(agent: Agent, state_dir: Path, status: Callable[[], Awaitable[NodeStatus]]) -> None:
    """Serve the API below `state_dir` for as long as the agent runs; `status` returns the node's own."""
    agent.add_background_task("Pods API", _PodsApi(agent, state_dir / SOCKET, status).run)


class _PodsApi:
    def __init__(self, agent: Agent, socket: Path, status: Callable[[], Awaitable[NodeStatus]]) -> None:
        self._agent, self._socket, self._status = agent, socket, status

    async def run(self) -> None:
        """Serve until cancelled. Where that is not possible, the log says why, and nothing is served."""
        news, bucket = PodNews(), TokenBucket(_BURST, _REFILL_SECONDS)

        def changed(state: Published) -> None:
            news.changed(state.metadata.uid, state.pod)

        def gone(state: Published) -> None:
            news.gone(state.metadata.uid, state.metadata.namespace, state.metadata.name)

        node = Node(
            pods=lambda: [state.pod() for state in self._agent.pods()],
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

    async def _is_ready(self) -> bool:
        return (await self._status()).sources_ready
