"""Sends pods' workflows the conditions of their readiness gates, which other clients set at the API server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from temporalio.service import RPCError

from syncpod.agent.kubernetes.statuses import NewestPod
from syncpod.kubernetes.json_documents import mapping
from syncpod.kubernetes.readiness_gates import GateCondition, has_gates, news_of_gates
from syncpod.kubernetes.reflector import ObjectKey
from syncpod.messages.identity import PodRef
from syncpod.messages.signals import SetCondition

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0


class ReadinessGates:
    """The gates of one node's pods. All methods belong to one event loop."""

    def __init__(
        self,
        objects: Callable[[], Mapping[ObjectKey, Mapping[str, Any]]],
        known: Callable[[str, str], NewestPod | None],
        tell: Callable[[PodRef, SetCondition], Awaitable[bool]],
    ) -> None:
        """`objects` returns the cluster's pods of this node.

        `known` returns a pod's newest state, by namespace and name. `tell` signals a workflow, and returns whether it
        is open.
        """
        self._objects, self._known, self._tell = objects, known, tell
        self._signalled: dict[tuple[str, str], GateCondition] = {}
        """By UID and type: conditions that were sent, and that the published state lacks. None is sent twice."""
        self._due: dict[ObjectKey, None] = {}
        self._news = asyncio.Event()

    def changed(self, key: ObjectKey) -> None:
        """Note that the API server has a new version of a pod, or that its workflow has a new state."""
        if has_gates(self._objects().get(key, {})):
            self._due[key] = None
            self._news.set()

    def forget(self, uid: str) -> None:
        """Drop the state of a pod that the API server no longer has."""
        self._signalled = {each: condition for each, condition in self._signalled.items() if each[0] != uid}

    async def run(self) -> None:
        """Send new conditions until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._due:
                key = next(iter(self._due))
                del self._due[key]  # first, so that a change during the signal makes it due again
                try:
                    await self.tell(key)
                except RPCError as error:
                    log.warning("a pod's readiness gates cannot be sent to its workflow: %s", error.message)
                    self._due[key] = None
                    await asyncio.sleep(_RETRY_SECONDS)

    async def tell(self, key: ObjectKey) -> None:
        """Send a pod's workflow the conditions of its gates that it lacks. Raises RPCError."""
        given = self._objects().get(key)
        uid = str(mapping(mapping(given).get("metadata")).get("uid") or "")
        state = self._known(*key)
        if given is None or state is None or state.uid != uid:
            return
        found = news_of_gates(given, (state.pod().get("status") or {}).get("conditions") or ())
        missing = {(uid, news.type) for news in found}
        self._signalled = {
            each: condition for each, condition in self._signalled.items() if each[0] != uid or each in missing
        }
        for news in found:
            if self._signalled.get((uid, news.type)) == news:
                continue
            ref = PodRef(namespace=key.namespace, name=key.name, uid=uid)
            if not await self._tell(ref, SetCondition.model_validate(news._asdict())):
                return  # the pod's next workflow will publish a state, which leads here again
            self._signalled[uid, news.type] = news
