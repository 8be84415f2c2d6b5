"""Follows the cluster's RuntimeClasses, which map a pod's `runtimeClassName` to a handler of the runtime.

Mirrors pkg/kubelet/runtimeclass/runtimeclass_manager.go, v1.36, LookupRuntimeHandler. Differences: the classes are
followed only once a pod names one; and a pod whose class is missing waits for it before the pod starts, while a kubelet
retries to create its sandbox.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from syncpod.agent.background import cancel_all
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.reflector import ObjectKey, Reflector

log = logging.getLogger(__name__)

_PATH = "/apis/node.k8s.io/v1/runtimeclasses"


class RuntimeClasses:
    """The classes that this node has received. All methods belong to one event loop."""

    def __init__(
        self, client: ApiClient, tell: Callable[[], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`tell` is called when classes have changed. `clock` is monotonic, in seconds."""
        self._reflector, self._tell = Reflector(client, _PATH, "RuntimeClass", clock=clock), tell
        self._needed = asyncio.Event()
        self._missing: set[str] = set()

    def handler(self, name: str) -> str | None:
        """Return the handler of a class, "" for the runtime's default; None if the class is missing or not received."""
        if not name:
            return ""
        self._needed.set()
        found = self._reflector.objects.get(ObjectKey("", name))
        if found is not None:
            self._missing.discard(name)
            return str(found.get("handler") or "")
        if self._reflector.is_complete and name not in self._missing:
            self._missing.add(name)
            log.warning("pods wait for RuntimeClass %s, which the cluster does not have", name)
        return None

    async def run(self) -> None:
        """Follow the classes until cancelled, from the first pod on that names one."""
        await self._needed.wait()
        following = asyncio.create_task(self._reflector.run(), name="watch of the RuntimeClasses")
        try:
            while True:
                await self._reflector.news.wait()
                self._reflector.news.clear()
                self._tell()
        finally:
            await cancel_all((following,))
