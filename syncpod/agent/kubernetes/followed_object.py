"""Follows one ConfigMap or Secret of the cluster by its own list and watch, and keeps it in the node's store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from syncpod.agent.background import cancel_all
from syncpod.kernel.os_errors import where_and_why
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.given_object import NotAnObject, given_object, path_of
from syncpod.kubernetes.reflector import ObjectKey, Reflector
from syncpod.objects import ObjectRef, ObjectRefused, ObjectStore

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 5.0
"""Seconds until the next try to store an object after a failure."""


class FollowedObject:
    """One object. All methods belong to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        store: ObjectStore,
        ref: ObjectRef,
        tell: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        """Keep the object in `store`; `tell` is called after each try. `clock` is monotonic, in seconds."""
        self._store, self._ref, self._tell = store, ref, tell
        self._reflector = Reflector(
            client,
            path_of(ref),
            ref.kind,
            params={"fieldSelector": f"metadata.name={ref.name}"},
            level=logging.DEBUG,
            clock=clock,
        )
        self.is_known = False
        """Whether the API server has answered, and the answer is in the store."""
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Why the store may lack the newest version; "" if it has it."""
        return self._trouble or self._reflector.trouble

    @property
    def has_logged_trouble(self) -> bool:
        """Whether the trouble is already logged here."""
        return bool(self._trouble)

    def keep_again(self) -> None:
        """Store the object again, since the store may have lost it."""
        self._reflector.news.set()

    async def run(self) -> None:
        """Follow the object until cancelled; an immutable object only until it is stored."""
        ref, reflector = self._ref, self._reflector
        following = asyncio.create_task(reflector.run(), name=f"watch of {ref} in {ref.namespace}")
        try:
            is_final = False
            while not is_final:
                await reflector.news.wait()
                reflector.news.clear()
                if not reflector.is_complete:
                    continue
                try:
                    is_final = await self._keep()
                    self.is_known, self._trouble = True, ""
                except (OSError, ObjectRefused, NotAnObject, ValueError) as error:
                    self._fail(where_and_why(error))
                self._tell()
        finally:
            await cancel_all((following,))

    async def _keep(self) -> bool:
        """Store the newest version; say whether the object is immutable. Raises OSError, ObjectRefused, NotAnObject."""
        document = self._reflector.objects.get(ObjectKey(self._ref.namespace, self._ref.name))
        if document is None:
            await asyncio.to_thread(self._store.note_absent, self._ref)
            return False
        found = given_object(self._ref, document)
        await asyncio.to_thread(self._store.keep, found)
        return bool(found.immutable)

    def _fail(self, why: str) -> None:
        """Log why the object cannot be stored, and try again after `RETRY_SECONDS`, or with its next change."""
        if self._trouble != why:
            self._trouble = why
            log.warning("%s in namespace %s cannot be kept: %s", self._ref, self._ref.namespace, why)
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self.keep_again)
