"""Changes that the agent makes beside the list of its manifests, if the node's workflow is certain to make them.

What the node's workflow has published last says whether it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from syncpod.agent.agent import Agent
from syncpod.agent.first_calls import until_asked
from syncpod.agent.node_workflow.node_signals import NodeSignals
from syncpod.messages.identity import PodRef
from syncpod.messages.node import FILE_SOURCE, BegunPod, SyncPods, document_size, node_workflow_id


class DocumentSizes:
    """The sizes of the documents of a list.

    A file that has not changed keeps its document, so of the next list only the new ones are measured: a list of 500
    pods takes 3 ms to measure, for which each new pod would wait.
    """

    def __init__(self) -> None:
        """Know no document yet."""
        self._known: dict[int, tuple[Any, int]] = {}
        """Each document of the last list by its `id`, which no other can have while the document is kept here."""

    def all_of(self, documents: Sequence[Any]) -> int:
        """Return the size of all documents together."""
        known = self._known
        self._known = {id(each): known.get(id(each)) or (each, document_size(each)) for each in documents}
        return sum(self._known[id(each)][1] for each in documents)


class EarlyChanges:
    """Begins and ends pods of manifests. All methods belong to the agent's event loop."""

    def __init__(self, agent: Agent, node: str, boot: int, signals: NodeSignals) -> None:
        """Act for the node's `agent` in its life `boot`; `signals` sends the lists."""
        self._agent = agent
        self._workflow = node_workflow_id(node)
        self._boot = boot
        self._signals = signals
        self._sizes = DocumentSizes()

    def expect(self) -> None:
        """Prepare for a change: something has happened in the directory, which is yet to be read."""
        self._agent.own_server.expect()

    def end(self, ref: PodRef) -> asyncio.Task[None] | None:
        """Begin to end a pod whose manifest is gone, and return the task that ends once its workflow has answered.

        The task also waits a moment for the step that ends the pod to have asked the runtime for it.

        Returns None, and does nothing, if the node's workflow may see another reason to keep it.
        """
        newest = self._agent.published_pods.newest(self._workflow)
        last_list = (FILE_SOURCE, self._boot, self._signals.number)
        ends = newest is not None and newest.published.answer("ends_without", *last_list, ref)
        answering = self._agent.early_ends.begin(ref) if ends else None
        return asyncio.create_task(self._until_ending(ref, answering)) if answering is not None else None

    async def _until_ending(self, ref: PodRef, answering: asyncio.Task[dict[str, Any] | None]) -> None:
        with self._agent.early_starts.calls.of(ref.uid) as asked:
            await asyncio.wait({answering})
            if answering.result() is not None:
                await until_asked(asked)

    async def begin(self, pods: SyncPods, new: Sequence[dict[str, Any]]) -> tuple[BegunPod, ...]:
        """Begin the pods of new manifests, unless the node's workflow may see a reason not to, or to do more first."""
        newest = self._agent.published_pods.newest(self._workflow)
        if newest is None:
            return ()
        last = pods.model_copy(update={"number": self._signals.number})
        planned = newest.published.answer("begins_with", last, self._sizes.all_of(pods.pods), new, datetime.now(UTC))
        begun = await asyncio.gather(*(self._agent.early_starts.begin(document) for _, document in planned))
        return tuple(
            pod if is_certain else pod.model_copy(update={"digest": ""})
            for (pod, _), is_certain in zip(planned, begun, strict=True)
            if is_certain is not False
        )
