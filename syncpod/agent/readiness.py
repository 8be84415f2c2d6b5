"""Watches whether the runtime can start pods, and wakes those that it could not start when it can again.

While the runtime or its network is not ready, steps refuse to start anything, and no attempt is spent; the workflow
waits. The kubelet asks every 5 s and tries such a pod again every 1 to 1.5 s (kubelet.go, v1.36, updateRuntimeUp;
pod_workers.go, completeWork); here the runtime is asked each second while it is not ready, and pods wait for the news.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from syncpod.cri.errors import CriError
from syncpod.cri.port import RuntimeStatus
from syncpod.messages import NOT_READY_FAULTS, Fault, PodRef

log = logging.getLogger(__name__)

READY_SECONDS = 5.0
"""How often the runtime is asked while all is well."""
NOT_READY_SECONDS = 1.0

Wake = Callable[[PodRef, str], Awaitable[None]]
"""Signals a pod with an event. Raises CriError."""


class Readiness:
    """What is known of the runtime's readiness. All methods belong to one event loop."""

    def __init__(self, ask: Callable[[], Awaitable[RuntimeStatus]], wake: Wake) -> None:
        """Ask the runtime by `ask`; wake refused pods by `wake`."""
        self._ask = ask
        self._wake = wake
        self._refused: dict[str, tuple[PodRef, Fault]] = {}
        self._has_refused = asyncio.Event()
        self.obstacles: dict[Fault, str] = {}
        """What stands in the way of starting pods, in the runtime's words. A network that is not ready does so only for
        pods that have one of their own."""

    def step_ended(self, ref: PodRef, fault: str) -> None:
        """Remember a pod that a step refused to start since the runtime is not ready; forget one that got on."""
        if fault in NOT_READY_FAULTS:
            self._refused[ref.uid] = ref, Fault(fault)
            self._has_refused.set()
        elif fault == "":
            self._refused.pop(ref.uid, None)

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            await self.check()
            pause = NOT_READY_SECONDS if self.obstacles or self._refused else READY_SECONDS
            # A refusal is looked into soon, but not at once: the step has just asked the runtime itself.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_refused.wait(), pause - NOT_READY_SECONDS)
            self._has_refused.clear()
            await asyncio.sleep(NOT_READY_SECONDS)

    async def check(self) -> None:
        """Ask once, and wake the pods for which nothing stands in the way any more."""
        before, self.obstacles = self.obstacles, await self._look()
        for fault, words in self.obstacles.items():
            if before.get(fault) != words:
                log.warning("pods cannot be started: %s", words)
        if before and not self.obstacles:
            log.info("the runtime and its network are ready again")
        for uid, (ref, fault) in tuple(self._refused.items()):
            if fault not in self.obstacles and Fault.RUNTIME_NOT_READY not in self.obstacles:
                del self._refused[uid]
                await self._wake_one(ref, fault)

    async def _wake_one(self, ref: PodRef, fault: Fault) -> None:
        try:
            await self._wake(ref, "RuntimeReady")
        except CriError as error:
            log.warning("pod %s/%s cannot be read: %s", ref.namespace, ref.name, error)
            self._refused.setdefault(ref.uid, (ref, fault))

    async def _look(self) -> dict[Fault, str]:
        try:
            status = await self._ask()
        except CriError as error:
            return {Fault.RUNTIME_NOT_READY: f"the runtime does not answer: {error}"}
        obstacles = {}
        if not status.runtime_ready:
            obstacles[Fault.RUNTIME_NOT_READY] = f"the runtime is not ready: {status.runtime_message}"
        if not status.network_ready:
            obstacles[Fault.NETWORK_NOT_READY] = f"its network is not ready: {status.network_message}"
        return obstacles
