"""Boots a node: the machine's shutdowns, the runtime, then the pods of the worker's last life, in this order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial

from syncpod.agent.background import LooseTasks, keep_running
from syncpod.agent.node_shutdown import NodeShutdown
from syncpod.agent.pleg import Pleg
from syncpod.agent.probing.prober import Prober
from syncpod.agent.runtime_readiness import RuntimeReadiness
from syncpod.agent.takeover.pods import OpenPod, Takeover
from syncpod.cri.errors import CriError
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.identity import PodRef
from syncpod.node.reader import PodReader, Relist

log = logging.getLogger(__name__)

BOOT_PATIENCE_SECONDS = 2.0
"""How long the worker waits for the takeover before it polls; slower pods are taken over while it polls."""
_RETRY_SECONDS = 1.0


class Boot:
    """Tells each pod's workflow what the runtime has: at the worker's start, and after a stuck run was replaced."""

    def __init__(
        self, reader: PodReader, readiness: RuntimeReadiness, takeover: Takeover, pleg: Pleg, prober: Prober
    ) -> None:
        """Take pods over with `takeover`, and signal their workflows by `pleg`."""
        self._reader, self._readiness, self._takeover = reader, readiness, takeover
        self._pleg, self._prober = pleg, prober
        self._tasks = LooseTasks()

    async def run(self, shutdown: NodeShutdown | None) -> None:
        """Take over the pods of the worker's last life, before this one polls. Raises CriError, RPCError.

        `shutdown` has the machine's shutdown wait for pods; None = it does not. A pod that cannot be taken over yet is
        retried, and delays neither the other pods nor the worker.
        """
        if shutdown is not None:
            await self._follow(shutdown)
        listed = await self._reader.read_all()
        await self._readiness.check()
        pods = await self._takeover.open_pods(listed.pods.values())
        taking = [self._begin_taking(pod) for pod in pods]
        for pod, taken in zip(pods, taking, strict=True):
            self._begin_telling(pod, taken, listed)
        await self._wait_for(taking)

    async def _follow(self, shutdown: NodeShutdown) -> None:
        """Have a shutdown of the machine wait for pods before anybody learns that the node is healthy.

        Anybody who finds the node ready may shut its machine down. The machine's bus may take its time, so the rest of
        the boot goes on after a while.
        """
        self._tasks.begin(keep_running("shutdown", shutdown.run), "shutdown")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BOOT_PATIENCE_SECONDS):
                await shutdown.has_tried.wait()

    def _begin_taking(self, pod: OpenPod) -> asyncio.Task[bool]:
        return asyncio.create_task(self._takeover.take_until_taken(pod.workflow_id), name=f"take {pod.workflow_id}")

    def _begin_telling(self, pod: OpenPod, taken: Awaitable[bool], listed: Relist) -> None:
        """Begin to signal a pod. Nothing awaits this task, so an unexpected error is logged, and it is tried again."""
        tell = partial(self._tell_when_taken, pod, taken, listed)
        self._tasks.begin(keep_running(f"the boot of {pod.workflow_id}", tell), f"boot {pod.workflow_id}")

    async def _wait_for(self, taking: Iterable[asyncio.Task[bool]]) -> None:
        """Wait a while for the takeover, but not for the signals: some workflows can be asked only after we poll."""
        if tasks := tuple(taking):
            _, late = await asyncio.wait(tasks, timeout=BOOT_PATIENCE_SECONDS)
            log.info("took over %d of %d pods", len(tasks) - len(late), len(tasks))

    async def _tell_when_taken(self, pod: OpenPod, taken: Awaitable[bool], listed: Relist) -> None:
        """Signal a pod's workflow the runtime's listing of the pod, once the workflow is taken over."""
        if not await taken:
            return
        ref = pod.ref or await self._takeover.ask_which(pod.workflow_id)
        if ref is None:
            return
        events = ("Boot",) if self._readiness.obstacles else ("Boot", "RuntimeReady")
        if pod.ref is not None and ref.uid not in listed.failures:
            nothing = ObservedPod(seq=listed.seq, uid=ref.uid)
            self._pleg.tell(ref, listed.pods.get(ref.uid, nothing), *events)
            return
        await self._read_and_tell(ref, events)

    def resume(self, ref: PodRef) -> None:
        """Send a workflow's new run the runtime's listing of now, and the results of the probes."""
        self._prober.tell_again(ref.uid)
        self._tasks.begin(self._read_and_tell(ref, ("Boot",)), f"resume {ref.namespace}/{ref.name}")

    async def _read_and_tell(self, ref: PodRef, events: Sequence[str]) -> None:
        """Signal a pod's workflow the runtime's listing of the pod, as soon as there is one."""
        while True:
            try:
                await self._pleg.wake(ref, *events)
            except CriError as error:
                log.warning("pod %s/%s cannot be read: %s", ref.namespace, ref.name, error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def close(self) -> None:
        """Cancel what is under way; the next worker begins anew."""
        await self._tasks.close()
        await self._takeover.close()
