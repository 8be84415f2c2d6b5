"""Pods that the agent starts as soon as their manifests are there, before it tells the node's workflow.

The node's workflow learns of a new manifest by a list, and then has the pod's workflow started by a step: a list, a
task and a step, one after the other. Here the pod's workflow is started first, and the list says so
(:class:`~syncpod.messages.node.BegunPod`), so that no step is left to do. If nobody answers in time, the list says that
the pod may have begun, and a step tells its workflow as always.

If the worker dies in between, the next one finds the pod in its list, and a step tells its workflow what it has
already; or the manifest is gone by then, and the pod is recalled (:mod:`syncpod.agent.node_workflow.recalled_pods`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from temporalio.client import Client
from temporalio.service import RPCError

from syncpod.agent.first_calls import FirstCalls, until_asked
from syncpod.cri.errors import CriError
from syncpod.messages.identity import NodeFacts, pod_workflow_id
from syncpod.pod import Pod, PodInvalid, admit_pod
from syncpod.temporal.pod_start import begin_pod

log = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 1.0
"""How long it may take to find out whether a pod may be started, while all changes of the directory wait for it."""
_START_SECONDS: Final = 5.0
"""The same for the start itself. It is long, since the first workflow task comes with the answer: without it, the pod
waits until that task has timed out (:data:`syncpod.temporal.timeouts.WORKFLOW_TASK`)."""

Recorded = Callable[[Pod], Awaitable[object | None]]
"""Returns what the node knows of a pod's life so far, if anything. Raises CriError, OSError."""


class EarlyStarts:
    """Starts pods' workflows. All methods belong to one event loop."""

    def __init__(
        self,
        client: Client,
        facts: Callable[[], NodeFacts],
        require: Callable[[], Awaitable[None]],
        recorded: Recorded,
        settle: Callable[[str], Awaitable[None]],
    ) -> None:
        """Start by `client`; `require` raises RPCError if the server is not the node's.

        `settle` waits until no earlier pod's workflow of that id is being told anything.
        """
        self._client = client
        self._facts = facts
        self._require = require
        self._recorded = recorded
        self._settle = settle
        self.calls = FirstCalls()
        """Hears what steps ask the runtime for."""

    async def begin(self, document: dict[str, Any]) -> bool | None:
        """Start the workflow of a pod that neither has one nor has ever run on this node; say whether it was started.

        None means that it may have been: nobody has answered in time, or what went wrong does not say. If it was, this
        returns once the pod's first step has asked the runtime for its sandbox, or after a moment: worker and server
        then have time for the list.
        """
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                pod = admit_pod(document)
                if pod.spec.node_name not in ("", self._facts().name):
                    return False
                id_ = pod_workflow_id(pod.metadata.namespace, pod.metadata.name)
                _, _, record = await asyncio.gather(self._require(), self._settle(id_), self._recorded(pod))
                if not pod.metadata.uid or record is not None:
                    return False
        except (PodInvalid, RPCError, CriError, OSError, TimeoutError) as error:
            log.debug("a pod is left to the node's workflow: %s", type(error).__name__)
            return False
        with self.calls.of(pod.metadata.uid) as asked:
            begun = await self._start(pod)
            if begun:
                await until_asked(asked)
        return begun

    async def _start(self, pod: Pod) -> bool | None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                facts = self._facts()
                return await begin_pod(self._client, pod, facts.name, has_attributes=facts.search_attributes)
        except Exception as error:  # noqa: BLE001  # the step reports it; no other pod of the directory waits for it
            log.debug("%s/%s may not have begun: %s", pod.metadata.namespace, pod.metadata.name, type(error).__name__)
            return None
