"""Follows the cluster's Services by one list and watch, and stores their environment variables for each namespace.

The node's store has the variables of a namespace as a ConfigMap, by a name that no ConfigMap of the cluster can have,
and a pod refers to it. So a container can start while the API server is away, with the last known variables.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from syncpod.agent.background import cancel_all
from syncpod.kernel.os_errors import where_and_why
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.reflector import Reflector
from syncpod.kubernetes.service_variables import service_variables
from syncpod.objects import ALL_SERVICES, ObjectRef, ObjectRefused, ObjectStore
from syncpod.pod import ConfigMap, ObjectMeta

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 5.0
_WITH_ADDRESS: Final = "spec.clusterIP!=None"
"""Headless Services are left out, as in the kubelet (kubelet.go, v1.36, NewMainKubelet)."""


class Services:
    """All Services of the cluster that have an address. All methods belong to one event loop."""

    def __init__(self, client: ApiClient, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        params = {"fieldSelector": _WITH_ADDRESS}
        self._reflector = Reflector(client, "/api/v1/services", "Service", params=params, clock=clock)
        self.listeners: set[asyncio.Event] = set()
        """Events that are set when the Services have changed."""

    @property
    def trouble(self) -> str:
        """Why the Services cannot be followed; "" if they can. It is already logged."""
        return self._reflector.trouble

    async def run(self) -> None:
        """Follow the Services until cancelled."""
        following = asyncio.create_task(self._reflector.run(), name="watch of the Services")
        try:
            while True:
                await self._reflector.news.wait()
                self._reflector.news.clear()
                for listener in self.listeners:
                    listener.set()
        finally:
            await cancel_all((following,))

    def variables(self, namespace: str, *, links: bool) -> dict[str, str] | None:
        """Return the variables for containers of a namespace; None while the Services are not known."""
        if not self._reflector.is_complete:
            return None
        return service_variables(self._reflector.objects.values(), namespace, links=links)


class FollowedServices:
    """The variables of one namespace. All methods belong to one event loop."""

    def __init__(self, services: Services, store: ObjectStore, ref: ObjectRef, tell: Callable[[], None]) -> None:
        """Keep the variables of `services` in `store`; `tell` is called after each try."""
        self._services, self._store, self._ref, self._tell = services, store, ref, tell
        self._news = asyncio.Event()
        self._news.set()
        self.is_known = False
        """Whether the API server has answered, and the variables are in the store."""
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Why the store may lack the newest variables; "" if it has them."""
        return self._trouble or self._services.trouble

    @property
    def has_logged_trouble(self) -> bool:
        """Whether the trouble is already logged: it always is."""
        return True

    def keep_again(self) -> None:
        """Store the variables again, since the store may have lost them."""
        self._news.set()

    async def run(self) -> None:
        """Keep the variables until cancelled."""
        self._services.listeners.add(self._news)
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                ref = self._ref
                data = self._services.variables(ref.namespace, links=ref.name == ALL_SERVICES)
                if data is None:
                    continue
                found = ConfigMap(metadata=ObjectMeta(name=ref.name, namespace=ref.namespace), data=data)
                try:
                    await asyncio.to_thread(self._store.keep, found, "services")
                    self.is_known, self._trouble = True, ""
                except (OSError, ObjectRefused, ValueError) as error:
                    self._fail(where_and_why(error))
                self._tell()
        finally:
            self._services.listeners.discard(self._news)

    def _fail(self, why: str) -> None:
        if self._trouble != why:
            self._trouble = why
            log.warning("variables of Services in namespace %s cannot be kept: %s", self._ref.namespace, why)
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self.keep_again)
