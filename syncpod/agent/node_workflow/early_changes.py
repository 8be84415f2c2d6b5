"""Changes that the agent makes beside the list of its manifests, if the node's workflow is certain to make them.

What the node's workflow has published last says whether it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from syncpod.agent.agent import Agent
from syncpod.agent.node_workflow.node_signals import NodeSignals
from syncpod.messages.identity import PodRef
from syncpod.messages.node import FILE_SOURCE, BegunPod, SyncPods, node_workflow_id


class EarlyChanges:
    """Begins and ends pods of manifests. All methods belong to the agent's event loop."""

    def __init__(self, agent: Agent, node: str, boot: int, signals: NodeSignals) -> None:
        """Act for the node's `agent` in its life `boot`; `signals` sends the lists."""
        self._agent = agent
        self._workflow = node_workflow_id(node)
        self._boot = boot
        self._signals = signals

    def expect_end(self) -> None:
        """Prepare for an end: a file is gone, and may be back in a moment."""
        self._agent.early_ends.expect()

    def end(self, ref: PodRef) -> asyncio.Task[dict[str, Any] | None] | None:
        """Begin to end a pod whose manifest is gone, and return the task that ends once its workflow has answered.

        Returns None, and does nothing, if the node's workflow may see another reason to keep it.
        """
        newest = self._agent.published_pods.newest(self._workflow)
        last_list = (FILE_SOURCE, self._boot, self._signals.number)
        ends = newest is not None and newest.published.answer("ends_without", *last_list, ref)
        return self._agent.early_ends.begin(ref) if ends else None

    async def begin(self, pods: SyncPods, new: Sequence[dict[str, Any]]) -> tuple[BegunPod, ...]:
        """Begin the pods of new manifests, unless the node's workflow may see a reason not to, or to do more first."""
        newest = self._agent.published_pods.newest(self._workflow)
        if newest is None:
            return ()
        last = pods.model_copy(update={"number": self._signals.number})
        planned = newest.published.answer("begins_with", last, new, datetime.now(UTC))
        begun = await asyncio.gather(*(self._agent.early_starts.begin(document) for _, document in planned))
        return tuple(
            pod if is_certain else pod.model_copy(update={"digest": ""})
            for (pod, _), is_certain in zip(planned, begun, strict=True)
            if is_certain is not False
        )
