"""Gives pods' workflows the conditions that others set at the API server and that readiness gates name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from temporalio.service import RPCError

from syncpod.kubernetes.readiness_gates import GateCondition, has_gates, news_of_gates
from syncpod.kubernetes.reflector import ObjectKey
from syncpod.messages.identity import PodRef
from syncpod.messages.signals import SetCondition

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0


class PublishedPod(Protocol):
    """A pod's newest state: `syncpod.temporal.workflow_watch.Published`."""

    @property
    def uid(self) -> str:
        """The pod's UID."""

    def pod(self) -> dict[str, Any]:
        """Return the whole Pod with its status."""


class ReadinessGates:
    """The gates of one node's pods. All methods belong to one event loop."""

    def __init__(
        self,
        objects: Callable[[], Mapping[ObjectKey, Mapping[str, Any]]],
        tell: Callable[[PodRef, SetCondition], Awaitable[bool]],
    ) -> None:
        """`objects` returns the cluster's pods of this node. `tell` signals a workflow, and says whether it is open."""
        self._objects, self._tell = objects, tell
        self._published: dict[str, PublishedPod] = {}
        """By UID."""
        self._told: dict[tuple[str, str], GateCondition] = {}
        """The newest that a workflow was given, by UID and type: one that refused it is not given it again."""
        self._due: dict[ObjectKey, None] = {}
        self._news = asyncio.Event()

    def published(self, key: ObjectKey, state: PublishedPod) -> None:
        """Take a pod's newest state."""
        self._published[state.uid] = state
        self.changed(key)

    def changed(self, key: ObjectKey) -> None:
        """Take that the API server has another version of a pod, or that its workflow has another state."""
        if has_gates(self._objects().get(key, {})):
            self._due[key] = None
            self._news.set()

    def forget(self, uid: str) -> None:
        """Take that the API server no longer has a pod."""
        self._published.pop(uid, None)
        self._told = {each: told for each, told in self._told.items() if each[0] != uid}

    async def run(self) -> None:
        """Tell what is new until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._due:
                key = next(iter(self._due))
                try:
                    await self.tell(key)
                except RPCError as error:
                    log.warning("a pod's readiness gates cannot be told: %s", error.message)
                    await asyncio.sleep(_RETRY_SECONDS)
                else:
                    self._due.pop(key, None)

    async def tell(self, key: ObjectKey) -> None:
        """Give a pod's workflow the conditions of its gates that it does not know. Raises RPCError."""
        given = self._objects().get(key)
        uid = str(((given or {}).get("metadata") or {}).get("uid") or "")
        state = self._published.get(uid)
        if given is None or state is None:
            return
        known = (state.pod().get("status") or {}).get("conditions") or ()
        for news in news_of_gates(given, known):
            if self._told.get((uid, news.type)) == news:
                continue
            ref = PodRef(namespace=key.namespace, name=key.name, uid=uid)
            if not await self._tell(ref, SetCondition.model_validate(news._asdict())):
                return  # its next state comes with its next workflow
            self._told[uid, news.type] = news
