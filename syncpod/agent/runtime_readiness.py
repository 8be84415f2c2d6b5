"""Polls whether the runtime can start pods. Once it can, wakes the pods that were refused meanwhile.

While the runtime or its network is not ready, steps refuse to start containers, no attempt is counted, and workflows
wait. The kubelet polls every 5 s and retries such a pod every 1 to 1.5 s (kubelet.go, v1.36, updateRuntimeUp;
pod_workers.go, completeWork). Here the runtime is polled each second while it is not ready, and pods wait for a signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from syncpod.cri.errors import CriError
from syncpod.cri.port import RuntimeStatus
from syncpod.messages.identity import PodRef
from syncpod.messages.steps import NOT_READY_FAULTS, Fault

log = logging.getLogger(__name__)

READY_SECONDS = 5.0
"""Seconds between two status calls while the runtime is ready."""
HUNG_SECONDS = 30.0
"""Seconds that a status call may take before the runtime counts as down: maxWaitForContainerRuntime."""
NOT_READY_SECONDS = 1.0
"""Seconds between two status calls while the runtime is not ready, or while a refused pod waits."""

Wake = Callable[[PodRef, str], Awaitable[None]]
"""Signals a pod with an event. Raises CriError."""


class RuntimeReadiness:
    """The readiness of one node's runtime. All methods belong to one event loop."""

    def __init__(self, ask: Callable[[], Awaitable[RuntimeStatus]], wake: Wake) -> None:
        """Get the runtime's status with `ask`; wake refused pods with `wake`."""
        self._ask = ask
        self._wake = wake
        self._refused: dict[str, tuple[PodRef, Fault]] = {}
        self._has_refused = asyncio.Event()
        self.obstacles: dict[Fault, str] = {}
        """By fault: why pods cannot be started, with the runtime's message. A network that is not ready affects only
        pods that have a network of their own."""

    def step_ended(self, ref: PodRef, fault: str) -> None:
        """Note a pod whose step was refused because the runtime is not ready; drop one whose step succeeded."""
        if fault in NOT_READY_FAULTS:
            self._refused[ref.uid] = ref, Fault(fault)
            self._has_refused.set()
        elif fault == "":
            self._refused.pop(ref.uid, None)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self.check()
            pause = NOT_READY_SECONDS if self.obstacles or self._refused else READY_SECONDS
            # After a refusal, poll soon but not at once: the step has just called the runtime itself.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause - NOT_READY_SECONDS):
                    await self._has_refused.wait()
            self._has_refused.clear()
            await asyncio.sleep(NOT_READY_SECONDS)

    async def check(self) -> None:
        """Poll once, and wake the refused pods that can be started now."""
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
            async with asyncio.timeout(HUNG_SECONDS):
                status = await self._ask()
        except CriError as error:
            return {Fault.RUNTIME_NOT_READY: f"the runtime does not answer: {error}"}
        except TimeoutError:
            return {Fault.RUNTIME_NOT_READY: f"the runtime does not answer: no status within {HUNG_SECONDS:g} s"}
        obstacles = {}
        if not status.runtime_ready:
            obstacles[Fault.RUNTIME_NOT_READY] = f"the runtime is not ready: {status.runtime_message}"
        if not status.network_ready:
            obstacles[Fault.NETWORK_NOT_READY] = f"its network is not ready: {status.network_message}"
        return obstacles
