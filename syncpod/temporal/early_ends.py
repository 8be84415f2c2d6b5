"""Pods that the agent has ended as soon as their manifests were gone, beside telling the node's workflow.

The node's workflow learns of a removed manifest by a list, and then has the pod's workflow told by a step: a list, a
task and a step, one after the other. Here the pod's workflow is told at the same time as the list is sent, with the
same update as that step would send. The step, in the same worker, then takes this answer for its own.

Nothing depends on it. If the pod's workflow does not answer, or the worker dies, the step tells it as it always would,
and an update that comes twice ends nothing twice. A pod is applied only when no such update is under way any more, so
that none can come after it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError

from syncpod.messages.identity import PodRef, pod_workflow_id

log = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 4.0
"""How long a pod's workflow may take to answer: less than a step that tells several pods waits for it."""
_KEPT_SECONDS: Final = 10.0
"""How long its answer waits for the step; longer than the answer may take."""


@dataclass(frozen=True, eq=False)
class _Told:
    """A pod whose workflow was told to end it."""

    uid: str
    answering: asyncio.Task[dict[str, Any] | None]


class EarlyEnds:
    """The updates under way, and answered a moment ago. All methods belong to one event loop."""

    def __init__(self, client: Client, require: Callable[[], Awaitable[None]]) -> None:
        """Tell by `client`; `require` raises RPCError if the server is not the node's."""
        self._client = client
        self._require = require
        self._told: dict[str, _Told] = {}
        """By workflow id; each stays until its update is no longer under way."""

    def begin(self, ref: PodRef) -> asyncio.Task[dict[str, Any] | None] | None:
        """Have the workflow of a pod end it, if it has that UID, and return the task that ends once it has answered.

        Returns None, and does nothing, while an update to this workflow is under way.
        """
        id_ = pod_workflow_id(ref.namespace, ref.name)
        before = self._told.get(id_)
        if before is not None and not before.answering.done():
            return None
        answering = asyncio.create_task(self._tell(id_, ref.uid), name=f"early end of {id_}")
        told = self._told[id_] = _Told(ref.uid, answering)
        asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._take, id_, told)
        return answering

    async def answer(self, id_: str, uid: str) -> dict[str, Any] | None:
        """Return what the workflow has answered, once; None if it was not told to end this pod, or has not done so."""
        told = self._told.get(id_)
        if told is None or told.uid != uid:
            return None
        await asyncio.wait({told.answering})
        return told.answering.result() if self._take(id_, told) else None

    async def settle(self, id_: str) -> None:
        """Wait until no update to this workflow is under way, and take its answer for no later deletion.

        This comes before the workflow is told of a pod that is wanted again.
        """
        if (told := self._told.get(id_)) is not None:
            await asyncio.wait({told.answering})
            self._take(id_, told)

    def _take(self, id_: str, told: _Told) -> bool:
        """Keep this answer no longer; say whether it was kept until now."""
        if self._told.get(id_) is not told:
            return False
        del self._told[id_]
        return True

    async def _tell(self, id_: str, uid: str) -> dict[str, Any] | None:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._require()
                handle = self._client.get_workflow_handle(id_)
                answer: dict[str, Any] = await handle.execute_update(
                    "delete", {"uid": uid}, result_type=dict, rpc_timeout=None
                )
        except (RPCError, TimeoutError, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
            log.debug("%s is told by the node's workflow alone: %s", id_, error)
            return None
        return answer
